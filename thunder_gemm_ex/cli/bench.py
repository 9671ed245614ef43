"""`bench`: the benchmark suites of a checkout; they are no part of the wheel."""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from thunder_gemm_ex._files import write_whole
from thunder_gemm_ex.cli._command import Result, command


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which suites, how thorough, and what is written where."""
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="suites or groups of them; all unless named")
    parser.add_argument("--suite", action="append", default=[], metavar="SUITE", help="the same, as an option")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only comparisons with this in their name")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (each comparison has its own default)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="cuda where there is one unless named")
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write a page with charts (needs the extra `bench`)")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="say better, same or worse than these results")


@command(
    "bench",
    "time the executor against its peers",
    example="bench --suite cpu --json=result.json",
    arguments=arguments,
    json_to_file=True,
)
def bench(args: argparse.Namespace) -> Result:
    """Exit status 0 when every result that was timed was right; a missed target is shown, not failed: machines differ."""
    # The console script, unlike `python -m`, doesn't look for modules in the current directory.
    sys.path.insert(0, "")
    try:
        run = importlib.import_module("benchmarks.run")
        results = importlib.import_module("benchmarks.results")
        tables = importlib.import_module("benchmarks.tables")
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.run"):
            raise
        return _refused("benchmarks/ is not here; run this in a checkout of thunder_gemm_ex.")
    out = args.json_file

    def keep(now: Any) -> None:
        if out:
            write_whole(out, json.dumps(now.to_dict(), indent=1) + "\n")

    try:
        baseline = None if args.baseline is None else results.Results.read(args.baseline)
        page = importlib.import_module("benchmarks.page") if args.html else None
        found = run.run_suites(
            [*args.suites, *args.suite],
            wanted=args.filter,
            rounds=args.rounds,
            device=args.device,
            quiet=args.json,
            keep=keep,
        )
    except ValueError as error:
        return _refused(f"{error}.")
    except ModuleNotFoundError as error:
        return _refused(f"--html needs {error.name}: pip install '.[bench]'.")
    if not any(found.suites.values()):
        return _refused(f"nothing was timed: no comparison has {args.filter!r} in its name.")
    if page is not None:
        write_whole(args.html, page.page(found, baseline))
    verdicts = [] if baseline is None else results.against(found, baseline)
    data = found.to_dict() | ({"baseline": verdicts} if verdicts else {})
    return Result(found.ok and found.complete, data, tables.render(found, baseline))


def _refused(sentence: str) -> Result:
    return Result(False, {"ok": False, "error": sentence}, sentence)
