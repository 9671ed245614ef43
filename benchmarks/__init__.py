"""Interleaved benchmarks, each result checked against eager before it is timed. `python -m benchmarks.run --help`."""
