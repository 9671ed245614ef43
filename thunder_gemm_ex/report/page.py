"""The report as HTML: a table for notebooks, and a self-contained page with traces side by side and the user's lines."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re

import jinja2
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.report.program import Program
from thunder_gemm_ex.report.rows import Report, Row
from thunder_gemm_ex.report.words import counted, headline, run_lines

# `  t5 = gemm(...)` and `  [t5, t6] = nvFusion0(...)`: what a line of a trace makes.
_MAKES = re.compile(r"^  \[?(?P<names>\w+(?:, \w+)*),?\]? = ")
# Lines of the user's source that are shown above and below one.
_AROUND = 2
STAGES = ("before", "after")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a trace: the anchors that rows link to, and the kind of what it does."""

    text: str
    anchors: tuple[str, ...]
    kind: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A row with its words, and where it is found in traces and source."""

    row: Row
    headline: str
    lines: tuple[str, ...]
    source: str
    snippet: str
    links: tuple[tuple[str, str], ...]


def page(report: Report) -> str:
    """A whole page that needs nothing else: no script, no font, no address."""
    return _environment().get_template("page.html.j2").render(_content(report), whole=True)


def fragment(report: Report) -> str:
    """The table alone, for a notebook."""
    return _environment().get_template("page.html.j2").render(_content(report), whole=False)


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("thunder_gemm_ex.report", ".")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def _content(report: Report) -> dict:
    programs = [_program(index, program) for index, program in enumerate(report.programs)]
    anchors = {x for program in programs for stage in STAGES for line in program[stage] for x in line.anchors}
    return {
        "rows": [_shown(row, anchors) for row in report.rows],
        "notes": report.notes,
        "counts": [line for program in report.programs for line in counted(program)],
        "programs": programs,
        "stages": STAGES,
    }


def _shown(row: Row, anchors: set[str]) -> Shown:
    lines = tuple(line for line in (row.reason, *run_lines(row)) if line)
    links = [(stage, _anchor(row.program, stage, row.result)) for stage in STAGES]
    present = tuple(link for link in links if link[1] in anchors)
    return Shown(row, headline(row), lines, row.where.rpartition("/")[2], _snippet(row.where), present)


def _snippet(where: str) -> str:
    file, _, line = where.rpartition(":")
    if not file:
        return ""
    at = int(line)
    shown = range(max(1, at - _AROUND), at + _AROUND + 1)
    texts = [(number, linecache.getline(file, number).rstrip()) for number in shown]
    return "\n".join(f"{'>' if n == at else ' '} {n:5} {text}" for n, text in texts if text or n == at)


def _program(index: int, program: Program) -> dict:
    try:
        stages = {"before": program.before, "after": program.after}
    except Exception:  # `counted` has said why
        stages = {"before": program.given, "after": program.made}
    lines = {stage: [_line(index, stage, text) for text in _source(trace)] for stage, trace in stages.items()}
    return {"name": program.name, "index": index, **lines}


def _source(trace: TraceCtx) -> list[str]:
    """The operations of a trace, without what each is made of."""
    return trace.python(print_depth=1).splitlines()


def _line(index: int, stage: str, text: str) -> Line:
    made = _MAKES.match(text)
    names = made["names"].split(", ") if made else []
    kind = "note" if text.lstrip().startswith("#") else ""
    if " = gemm(" in text:
        kind = "gemm"
    elif re.search(r" = (torch\.)?(matmul|bmm|linear|baddbmm|addmm|nn\.functional\.linear)\(", text):
        kind = "matmul"
    elif re.search(r" = \w*(Fusion|TorchCompile)\w*\(", text):
        kind = "region"
    return Line(text, tuple(_anchor(index, stage, name) for name in names), kind)


def _anchor(index: int, stage: str, name: str) -> str:
    return f"p{index}-{stage}-{name}"
