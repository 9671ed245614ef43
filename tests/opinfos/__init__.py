"""The operations that we claim, on the samples of PyTorch's own OpInfos and of Thunder's: forward, gradient, errors.

`pytest tests/opinfos` takes SAMPLES of each operation, dtype and direction, evenly spread over what the OpInfo gives;
`python -m tests.opinfos` takes all and prints a table. `python -m tests.opinfos.thunder_files` runs Thunder's own test
files with the executor among the defaults and without, and prints what passes without it and fails with it.
"""
