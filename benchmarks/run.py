"""`python -m benchmarks.run [SUITE ...] [--rounds N] [--device D] [--out FILE]`: tables, and JSON in a file."""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from benchmarks.comparison import OURS
from benchmarks.machine import machine

SUITES = ("rope", "programs", "overhead", "compile")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when every result was eager's; missed targets are shown, not failed: machines differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all unless named")
    parser.add_argument("--rounds", type=int, help="interleaved rounds instead of each comparison's own")
    parser.add_argument("--device", default=None, help="cpu or cuda; cuda where there is one unless named")
    parser.add_argument("--out", type=Path, help="also write the JSON there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    args = parser.parse_args(argv)
    data = run_suites(args.suites, rounds=args.rounds, device=args.device, quiet=args.json)
    text = json.dumps(data, indent=1) + "\n"
    if args.out:
        args.out.write_text(text)
    if args.json:
        print(text, end="")
    else:
        Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(render(data))
    return 0 if data["ok"] else 1


def run_suites(
    names: Sequence[str] = (), *, rounds: int | None = None, device: str | None = None, quiet: bool = False
) -> dict:
    """Runs the named suites, all if none is named; returns machine, results and whether all of them were right."""
    unknown = set(names) - set(SUITES)
    if unknown:
        raise SystemExit(f"no suite is called {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}.")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    suites = {name: run_suite(name, device, rounds, quiet) for name in names or SUITES}
    right = all(result["check"]["ok"] for results in suites.values() for result in results)
    return {"ok": right, "device": device, "machine": machine(), "suites": suites}


def run_suite(name: str, device: str, rounds: int | None, quiet: bool) -> list[dict]:
    """All comparisons of one suite, each made only when its turn comes: inputs and code of one are alive at a time."""
    results = []
    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as progress:
        for comparison in importlib.import_module(f"benchmarks.{name}").suite(device):
            task = progress.add_task(f"{name}: {comparison.name}", total=rounds or comparison.rounds)
            results.append(comparison.measure(rounds, lambda task=task: progress.advance(task)))
            progress.remove_task(task)
    return results


def render(data: dict) -> Group:
    """A table per suite."""
    system = data["machine"]
    where = f"{system['gpu'] or system['cpu']}, {system['torch_threads']} threads, torch {system['versions']['torch']}"
    return Group(*(suite_table(name, results) for name, results in data["suites"].items()), Text(f"On {where}."))


def suite_table(name: str, results: list[dict]) -> Table:
    """A row per candidate: its time, and how many times as fast ours is."""
    table = Table(title=f"{name}: times as fast as", title_justify="left")
    for column in ("", "candidate", "median µs", f"{OURS} is", "95 %", "target"):
        table.add_column(column, justify="left" if column in ("", "candidate") else "right")
    for result in results:
        if not result["check"]["ok"]:
            table.add_row(result["name"], f"WRONG VALUES: {result['check']['errors']}")
            continue
        for row in comparison_rows(result):
            table.add_row(*row)
        table.add_section()
    return table


def comparison_rows(result: dict):
    """The cells of one comparison."""
    title = result["name"]
    for candidate, microseconds in result["median_microseconds"].items():
        ratio = result["times_as_fast_as"].get(candidate)
        cells = [title, candidate, f"{microseconds:.1f}"]
        if ratio:
            cells += [f"{ratio['median']:.2f}x", f"{ratio['low']:.2f} to {ratio['high']:.2f}"]
        if ratio and "target" in ratio:
            cells.append(f"{ratio['target']:.2f} {'met' if ratio['met'] else 'MISSED'}")
        yield cells
        title = ""


if __name__ == "__main__":
    sys.exit(main())
