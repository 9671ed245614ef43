"""Runs suites: each comparison is checked, timed in interleaved rounds, and kept as soon as it is there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.comparison import said
from benchmarks.machine import machine
from benchmarks.results import Results

SUITES = (
    *("rope", "attention", "programs", "blocks", "epilogues", "memory", "overhead"),
    *("small", "compile", "shapes", "algorithms"),
)
# What --suite takes beside the suites themselves.
GROUPS = {
    "cpu": ("rope", "attention", "programs", "blocks", "epilogues", "memory", "overhead"),
    "gpu": ("shapes", "algorithms", "attention", "rope", "epilogues", "programs", "blocks", "memory"),
    "all": SUITES,
}


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m benchmarks.run` is `python -m thunder_gemm_ex bench`, from a checkout."""
    from thunder_gemm_ex.cli import main as command_line

    return command_line(["bench", *(sys.argv[1:] if argv is None else argv)])


def suites_of(names: Sequence[str]) -> list[str]:
    """The suites that are meant by names of suites and groups. ValueError names one that is neither."""
    unknown = [name for name in names if name not in (*SUITES, *GROUPS)]
    if unknown:
        raise ValueError(f"no suite is called {', '.join(unknown)}; there are {', '.join((*SUITES, *GROUPS))}")
    found = [suite for name in names or ("all",) for suite in GROUPS.get(name, (name,))]
    return list(dict.fromkeys(found))


def run_suites(
    names: Sequence[str] = (),
    *,
    wanted: str = "",
    rounds: int | None = None,
    device: str | None = None,
    quiet: bool = False,
    keep: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Run the named suites and groups, all if none is named, and of them the comparisons with `wanted` in their name.

    `keep` is called after each comparison with what is there so far. Ctrl-C ends the run, and what was measured is
    returned with `complete` False. rounds: instead of each comparison's own. ValueError: an unknown name.
    """
    suites = suites_of(names)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    results = Results(device=device, machine=machine(), suites={})
    with _progress(quiet) as progress:
        try:
            for suite in suites:
                _run_suite(suite, results, wanted, rounds, progress, keep)
        except KeyboardInterrupt:
            results.complete = False
    return results


def _run_suite(suite: str, results: Results, wanted: str, rounds: int | None, progress: Progress, keep) -> None:
    """Each comparison is made only when its turn comes: inputs and code of one are alive at a time."""
    found = results.suites.setdefault(suite, [])
    made = importlib.import_module(f"benchmarks.{suite}").suite(results.device)
    while True:
        try:
            comparison = next(made, None)
        except Exception as error:  # such as out of memory: other suites may do
            found.append(_failed(f"{suite}, the rest", error))
            keep(results)
            return
        if comparison is None:
            return
        if wanted.lower() in f"{suite}: {comparison.name}".lower():
            found.append(_measured(suite, comparison, rounds, progress))
            keep(results)


def _measured(suite: str, comparison, rounds: int | None, progress: Progress) -> dict:
    task = progress.add_task(f"{suite}: {comparison.name}", total=rounds or comparison.rounds)
    try:
        return comparison.measure(rounds, lambda: progress.advance(task))
    except Exception as error:
        return _failed(comparison.name, error)
    finally:
        progress.remove_task(task)


def _failed(name: str, error: Exception) -> dict:
    return {"name": name, "check": {"ok": False, "errors": {}, "failed": {"": said(error)}}}


def _progress(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True)


if __name__ == "__main__":
    sys.exit(main())
