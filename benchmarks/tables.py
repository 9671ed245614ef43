"""Results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from benchmarks.comparison import OURS
from benchmarks.results import Results, against, figures_of, geomeans, ratios_of

COLUMNS = ("", "candidate", "median", f"{OURS} is", "95 %", "target")


def render(results: Results, baseline: Results | None = None) -> Group:
    """A table for each suite; with a baseline a column that says better, same or worse."""
    verdicts = {} if baseline is None else {(name, who): word for name, who, word in against(results, baseline)}
    system = results.machine
    where = f"{system['gpu'] or system['cpu']}, {system['torch_threads']} threads, torch {system['versions']['torch']}"
    end = f"On {where}." if results.complete else f"On {where}. Cut off before the end."
    return Group(*(_table(name, found, verdicts) for name, found in results.suites.items()), Text(end))


def _table(suite: str, found: list[dict[str, Any]], verdicts: dict[tuple[str, str], str]) -> Table:
    table = Table(title=f"{suite}: how many times as fast as, or as little", title_justify="left")
    for column in (*COLUMNS, *(["baseline"] if verdicts else [])):
        table.add_column(column, justify="left" if column in ("", "candidate", "baseline") else "right")
    for result in found:
        if not result["check"]["ok"]:
            table.add_row(
                result["name"], f"WRONG VALUES: {result['check']['errors']} {result['check'].get('failed', '')}"
            )
            continue
        for row in _rows(result, verdicts):
            table.add_row(*row)
        table.add_section()
    for candidate, mean in geomeans(found).items():
        table.add_row("geometric mean", candidate, "", f"{mean:.2f}x")
    return table


def _rows(result: dict[str, Any], verdicts: dict[tuple[str, str], str]) -> Iterator[list[str]]:
    title = result["name"]
    for candidate, figure in figures_of(result).items():
        cells = [title, candidate, figure, "", "", ""]
        ratio = ratios_of(result).get(candidate)
        if ratio:
            cells[3:5] = [f"{ratio['median']:.2f}x", f"{ratio['low']:.2f} to {ratio['high']:.2f}"]
        if ratio and "target" in ratio:
            cells[5] = f"{ratio['target']:.2f} {'met' if ratio['met'] else 'MISSED'}"
        yield [*cells, verdicts.get((result["name"], candidate), "")] if verdicts else cells
        title = ""
    for candidate, why in result["check"].get("failed", {}).items():
        yield ["", candidate, f"did not run: {why}", "", "", "", *([""] if verdicts else [])]
