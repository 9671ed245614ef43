"""The report for a terminal: coloured there, plain and 80 columns wide in a pipe."""

from __future__ import annotations

import io
import sys
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from thunder_gemm_ex.report.rows import Report, Row
from thunder_gemm_ex.report.words import counted, headline, run_lines

WIDTH = 80
COLOURS = {"claimed": "green", "multiply": "green", "given back": "yellow", "declined": "red"}


def plain(report: Report) -> str:
    """The report as text, without trailing blanks; with colours only where stdout is a terminal."""
    out = io.StringIO()
    terminal = sys.stdout.isatty()
    width = None if terminal else WIDTH
    console = Console(file=out, width=width, force_terminal=terminal, highlight=False, markup=False)
    console.print(rich_report(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def rich_report(report: Report) -> Any:
    """The report as something that rich prints."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, leading=1)
    table.add_column("matmul", overflow="fold", max_width=26)
    table.add_column("decision", no_wrap=True)
    table.add_column("what was done", overflow="fold")
    for row in report.rows:
        # A blank line between rows, since each has several.
        table.add_row(_matmul(row), Text(row.decision, COLOURS.get(row.decision, "")), _done(row))
    counts = [Text(line) for program in report.programs for line in counted(program)] if report.rows else []
    return Group(table, *counts, *(Text(note, "yellow") for note in report.notes))


def _matmul(row: Row) -> Text:
    text = Text(row.op, "bold")
    text.append(" (backward)" if row.backward else "", "not bold")
    place = row.where.rpartition("/")[2]
    text.append(f"\n{place}" if place else "", "not bold dim")
    return text


def _done(row: Row) -> Text:
    text = Text(headline(row), "bold")
    for line in (row.reason, *run_lines(row)):
        text.append(f"\n{line}", "not bold")
    return Text("\n").join(line for line in text.split("\n") if line.plain)
