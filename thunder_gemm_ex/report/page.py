"""The report as HTML: a table for notebooks, and a self-contained page with traces side by side and the user's lines."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jinja2

from thunder_gemm_ex.report.panes import STAGES, panes, snippet
from thunder_gemm_ex.report.rows import Report, Row
from thunder_gemm_ex.report.words import counted, headline, run_lines


@dataclasses.dataclass(frozen=True)
class Shown:
    """A row with its words, its place in short, and its links: by stage, the anchor of its line."""

    row: Row
    headline: str
    calls: tuple[str, ...]
    place: str
    snippet: str
    links: dict[str, str]


def page(report: Report) -> str:
    """A whole page that needs nothing else: no font, no address; without its script, links still lead to lines."""
    return _environment().get_template("page.html.j2").render(_content(report))


def fragment(report: Report) -> str:
    """The table alone, for a notebook."""
    shown = [_shown(row, {}) for row in report.rows]
    return _environment().get_template("fragment.html.j2").render(_table(report, shown))


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("thunder_gemm_ex.report", ".")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def _content(report: Report) -> dict[str, Any]:
    programs = []
    links: dict[int, dict[str, str]] = {number: {} for number in range(len(report.rows))}
    for index, program in enumerate(report.programs):
        own = [(number, row) for number, row in enumerate(report.rows) if row.program == index]
        found = panes(index, program, own)
        programs.append((program.name, found))
        for stage in STAGES:
            for line in found[stage]:
                for number in line.rows:
                    links[number][stage] = line.anchor
    shown = [_shown(row, links[number]) for number, row in enumerate(report.rows)]
    return _table(report, shown) | {"programs": programs, "stages": STAGES}


def _table(report: Report, shown: list[Shown]) -> dict[str, Any]:
    counts = [line for program in report.programs for line in counted(program)] if shown else []
    return {"rows": shown, "notes": report.notes, "counts": counts}


def _shown(row: Row, links: dict[str, str]) -> Shown:
    return Shown(row, headline(row), tuple(run_lines(row)), row.where.rpartition("/")[2], snippet(row.where), links)
