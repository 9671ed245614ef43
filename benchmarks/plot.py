"""`python -m benchmarks.plot RESULT.json OUT.png`: how many times as fast ours is, with intervals."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt


def main(argv: Sequence[str] | None = None) -> int:
    """Reads one file written by `benchmarks.run --out` and draws one bar for each comparison and candidate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args(argv)
    draw(bars(json.loads(args.result.read_text()))).savefig(args.picture, dpi=150, bbox_inches="tight")
    return 0


def bars(data: dict) -> list[tuple[str, dict]]:
    """(label, ratio) for everything that was timed, in the file's order."""
    return [
        (f"{result['name']}\nagainst {candidate}", ratio)
        for results in data["suites"].values()
        for result in results
        for candidate, ratio in result.get("times_as_fast_as", {}).items()
    ]


def draw(labelled: list[tuple[str, dict]]):
    """Horizontal bars, first on top, around the line at 1 (equally fast)."""
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(labelled) + 1))
    medians = [ratio["median"] for _, ratio in labelled]
    sides = [
        [r["median"] - r["low"] for _, r in labelled],
        [r["high"] - r["median"] for _, r in labelled],
    ]
    axes.barh([label for label, _ in labelled], medians, xerr=sides, height=0.6, color="#4c72b0", ecolor="#333333")
    axes.axvline(1.0, color="#c44e52", linewidth=1)
    axes.set_xlabel("times as fast (median, 95 % interval); 1 is equally fast")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    return figure


if __name__ == "__main__":
    sys.exit(main())
