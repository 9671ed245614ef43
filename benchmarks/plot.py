"""Pictures of results: how many times as fast ours is, and where products stand under the roof of the machine.

`python -m benchmarks.plot RESULT.json OUT.png` draws the first; the suffix of OUT decides the format.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.comparison import OURS
from benchmarks.results import Results, ratios_of

BLUE, RED, GREY = "#4c72b0", "#c44e52", "#333333"


def main(argv: Sequence[str] | None = None) -> int:
    """Reads one file written by `bench` and draws one bar for each comparison and candidate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args(argv)
    figure = ratio_chart(list(Results.read(args.result).comparisons()))
    figure.savefig(args.picture, dpi=150, bbox_inches="tight")
    return 0


def bars(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, float]]]:
    """(label, ratio) for everything that was timed, in order."""
    return [
        (f"{result['name']}\nagainst {candidate}", ratio)
        for result in found
        for candidate, ratio in ratios_of(result).items()
    ]


def ratio_chart(found: list[dict[str, Any]]):
    """Horizontal bars, first on top, around the line at 1 (equally fast)."""
    labelled = bars(found)
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(labelled) + 1))
    medians = [ratio["median"] for _, ratio in labelled]
    sides = [
        [r["median"] - r["low"] for _, r in labelled],
        [r["high"] - r["median"] for _, r in labelled],
    ]
    axes.barh([label for label, _ in labelled], medians, xerr=sides, height=0.6, color=BLUE, ecolor=GREY)
    axes.axvline(1.0, color=RED, linewidth=1)
    axes.set_xlabel("times as fast, or as little memory (median, 95 % interval); 1 is equal")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    return figure


def roofline(found: list[dict[str, Any]]):
    """Rate over intensity of every comparison that tells its `flops` and `bytes`; None where none does.

    The roof is what was reached: the best rate, and the best rate of moving bytes.
    """
    points = [
        (result["flops"] / result["bytes"], result["flops"] / result["median_microseconds"][OURS] * 1e-6, result)
        for result in found
        if "flops" in result and "median_microseconds" in result
    ]
    if not points:
        return None
    figure, axes = plt.subplots(figsize=(8, 5))
    top = max(rate for _, rate, _ in points)
    slope = max(rate / intensity for intensity, rate, _ in points)
    ends = [min(i for i, _, _ in points) / 2, top / slope, max(i for i, _, _ in points) * 2]
    axes.plot(ends, [min(top, slope * x) for x in ends], color=RED, linewidth=1)
    axes.scatter([i for i, _, _ in points], [r for _, r, _ in points], color=BLUE, s=18)
    axes.set(xscale="log", yscale="log", xlabel="flops for each byte of operands and result", ylabel="TFLOP/s")
    return figure


def svg(figure) -> str:
    """A figure as an <svg> element that can stand in a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight")
    plt.close(figure)
    return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]


if __name__ == "__main__":
    sys.exit(main())
