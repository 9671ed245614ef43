"""Pictures of results: how many times as fast ours is, and where products stand under the roof of the machine.

`python -m benchmarks.plot RESULT.json OUT.png` draws the first, of all suites or of those named by `--suite`; the suffix
of OUT decides the format. `python -m benchmarks.plot` alone draws the README's pictures anew from the committed results.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from benchmarks.comparison import OURS
from benchmarks.results import Results, ratios_of
from thunder_gemm_ex._files import write_whole

BLUE, RED = "#4c72b0", "#c44e52"
MARKS = "osD^vPX"


ROOT = Path(__file__).parents[1]
RESULTS = Path("benchmarks", "results", "cpu-2-threads.json")
# The README's pictures -> the suites in each.
PICTURES = {Path("docs", "pictures", f"{name}.png"): (name,) for name in ("rope", "attention", "programs", "blocks")}
# In the PNG: a digest of what it was drawn from.
DRAWN_FROM = "drawn-from"


def main(argv: Sequence[str] | None = None) -> int:
    """One bar for each comparison and candidate of a file written by `bench`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("result", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--suite", action="append", metavar="SUITE", help="only this one; may be repeated")
    args = parser.parse_args(argv)
    if (args.result is None) != (args.picture is None):
        parser.error("RESULT goes with PICTURE; neither draws the README's pictures")
    if args.result is not None:
        draw(args.result, args.picture, args.suite)
        return 0
    for picture, suites in PICTURES.items():
        draw(ROOT / RESULTS, ROOT / picture, suites)
    return 0


def draw(result: Path, picture: Path, suites: Sequence[str] | None) -> None:
    """Write the picture of these suites, of all without a name. ValueError: the file is none of results."""
    known = Results.read(result).suites
    found = [comparison for suite in suites or known for comparison in known.get(suite, [])]
    metadata = {DRAWN_FROM: digest(found)} if picture.suffix == ".png" else None
    picture.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    figure = ratio_chart(found)
    figure.savefig(buffer, format=picture.suffix[1:], dpi=120, bbox_inches="tight", metadata=metadata)
    plt.close(figure)
    write_whole(picture, buffer.getvalue())


def digest(found: list[dict[str, Any]]) -> str:
    """Of the comparisons' content."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def ratio_chart(found: list[dict[str, Any]]) -> Figure:
    """A row for each comparison, first on top, and in it a mark with its interval for each candidate."""
    found = [result for result in found if ratios_of(result)]
    candidates = list(dict.fromkeys(name for result in found for name in ratios_of(result)))
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(found) + 1.2))
    for place, candidate in enumerate(candidates):
        rows = [(i, ratios_of(r)[candidate]) for i, r in enumerate(found) if candidate in ratios_of(r)]
        medians = [ratio["median"] for _, ratio in rows]
        sides = [[r["median"] - r["low"] for _, r in rows], [r["high"] - r["median"] for _, r in rows]]
        # Marks of one row beside one another, not on top.
        heights = [i + 0.5 * ((place + 0.5) / len(candidates) - 0.5) for i, _ in rows]
        colour, mark = f"C{place}", MARKS[place % len(MARKS)]
        axes.errorbar(medians, heights, xerr=sides, fmt=mark, color=colour, markersize=5, label=f"against {candidate}")
    axes.axvline(1.0, color=RED, linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(ScalarFormatter())
    axes.set_yticks(range(len(found)), [result["name"] for result in found], fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.tick_params(axis="x", which="both", labelsize=7)
    axes.set_xlabel(f"{OURS}: times as fast, or as little memory (median, 95 % interval); 1 is equal", fontsize=8)
    if candidates:
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def roofline(found: list[dict[str, Any]]) -> Figure | None:
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


def svg(figure: Figure) -> str:
    """A figure as an <svg> element that can stand in a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight")
    plt.close(figure)
    return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]


if __name__ == "__main__":
    sys.exit(main())
