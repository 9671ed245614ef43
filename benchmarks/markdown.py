"""`python -m benchmarks.markdown RESULT.json`: the table of the README, from results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import Results

HEAD = ["| program | against | times as fast (95 %) |", "|---|---|---|"]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markdown", description=__doc__)
    parser.add_argument("result", type=Path)
    print(table(Results.read(parser.parse_args(argv).result)))
    return 0


def table(results: Results) -> str:
    """One line for each comparison and candidate, without what is measured beside ours for its own sake."""
    lines = [
        f"| {name} | {candidate} | {ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f}) |"
        for name, candidate, ratio in results.ratios()
    ]
    return "\n".join([*HEAD, *lines])


if __name__ == "__main__":
    sys.exit(main())
