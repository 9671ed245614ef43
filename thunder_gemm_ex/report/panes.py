"""What stands side by side in the page: the user's lines, the trace before and the trace after, each line with its rows."""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.report.program import Program
from thunder_gemm_ex.report.rows import Row

# `  t5 = gemm(...)` and `  [t5, t6] = nvFusion0(...)`: what a line of a trace makes.
_MAKES = re.compile(r"^  \[?(?P<names>\w+(?:, \w+)*),?\]? = ")
# What a line that makes something is, the first that fits.
_KINDS = {
    "gemm": re.compile(r" = (scaled_)?gemm\("),
    "matmul": re.compile(r" = (torch\.)?(matmul|bmm|linear|baddbmm|addmm|nn\.functional\.linear)\("),
    "region": re.compile(r" = \w*(Fusion|TorchCompile)\w*\("),
}
# Lines of the user's source that are shown above and below one.
AROUND = 2
STAGES = ("source", "before", "after")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line that is shown. anchor: what links lead to, unique in a page. rows: numbers of the rows that it belongs to."""

    text: str
    anchor: str
    rows: tuple[int, ...] = ()
    kind: str = ""


Panes = dict[str, tuple[Line, ...]]


def panes(index: int, program: Program, rows: Iterable[tuple[int, Row]]) -> Panes:
    """By stage, the lines that are shown of program number `index`; `rows` are its own, with their numbers."""
    rows = list(rows)
    try:
        before, after = program.before, program.after
    except Exception:  # `counted` has said why
        before, after = program.given, program.made
    return {
        "source": tuple(_source(f"p{index}-source", rows)),
        "before": tuple(_trace(f"p{index}-before", before, [(n, (row.product, row.result)) for n, row in rows])),
        "after": tuple(_trace(f"p{index}-after", after, [(n, (row.result, row.product)) for n, row in rows])),
    }


def snippet(where: str) -> str:
    """The line `where` of the user's source with those around it, marked; "" for a place that is unknown."""
    file, at = place(where)
    return "\n".join(f"{'>' if n == at else ' '} {n:5} {text}" for n, text in _lines_of(file, around([at])))


def place(where: str) -> tuple[str, int]:
    """(file, line) of "file:line"; ("", 0) where there is none."""
    file, _, line = where.rpartition(":")
    return (file, int(line)) if file else ("", 0)


def around(lines: Iterable[int]) -> list[int]:
    """The numbers of lines to show for `lines`, in order."""
    return sorted({n for at in lines for n in range(max(1, at - AROUND), at + AROUND + 1)})


def _lines_of(file: str, numbers: Iterable[int]) -> list[tuple[int, str]]:
    """(number, text) of those lines that the file has."""
    return [(n, text.rstrip()) for n in numbers if (text := linecache.getline(file, n))]


def _source(prefix: str, rows: Sequence[tuple[int, Row]]) -> Iterator[Line]:
    """Each file's name, then its lines with a mark where some are left out."""
    here: dict[tuple[str, int], list[int]] = {}
    for number, row in rows:
        here.setdefault(place(row.where), []).append(number)
    for which, file in enumerate(dict.fromkeys(file for file, _ in here if file)):
        yield Line(file, f"{prefix}-{which}", kind="note")
        last = None
        for n, text in _lines_of(file, around(line for other, line in here if other == file)):
            if last is not None and n > last + 1:
                yield Line("   ...", f"{prefix}-{which}-before-{n}", kind="note")
            last = n
            yield Line(f"{n:5}  {text}", f"{prefix}-{which}-{n}", tuple(here.get((file, n), ())))


def _trace(prefix: str, trace: TraceCtx, wanted: Sequence[tuple[int, tuple[str, ...]]]) -> Iterator[Line]:
    """The operations of a trace without what each is made of; a row belongs to the line that makes its first name."""
    inside = _inside(trace)
    texts = trace.python(print_depth=1).splitlines()
    makes = [_made(text, inside) for text in texts]
    at = {name: number for number, names in enumerate(makes) for name in names}
    owners: dict[int, list[int]] = {}
    for row, names in wanted:
        found = next((at[name] for name in names if name in at), None)
        if found is not None:
            owners.setdefault(found, []).append(row)
    for number, text in enumerate(texts):
        yield Line(text, f"{prefix}-{number}", tuple(owners.get(number, ())), _kind(text, makes[number]))


def _made(text: str, inside: dict[str, list[str]]) -> list[str]:
    """The tensors that a line of a trace makes; of a fused region, also those that do not leave it."""
    made = _MAKES.match(text)
    names = made["names"].split(", ") if made else []
    return names + [name for out in names for name in inside.get(out, ())]


def _inside(trace: TraceCtx) -> dict[str, list[str]]:
    """By the name of its first result, the names of what a fused region makes."""
    bsyms: list[Any] = trace.bound_symbols
    return {
        bsym.flat_proxy_outs[0].name: [p.name for sub in bsym.subsymbols for p in sub.flat_proxy_outs]
        for bsym in bsyms
        if bsym.sym.is_fusion and any(isinstance(p, TensorProxy) for p in bsym.flat_proxy_outs)
    }


def _kind(text: str, makes: Sequence[str]) -> str:
    if not makes:
        return "note" if text.lstrip().startswith("#") else ""
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(text)), "")
