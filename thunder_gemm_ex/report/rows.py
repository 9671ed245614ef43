"""What a report consists of: a row for each matmul, and a program for each function that was compiled."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thunder_gemm_ex._files import write_whole

if TYPE_CHECKING:
    from thunder_gemm_ex.report.program import Program

# Of the data that `Report.to_dict` returns: raised when a key changes its meaning or goes.
VERSION = 1


@dataclasses.dataclass(frozen=True)
class Run:
    """How the calls of a row with one combination of operand strides (in elements) are carried out.

    engine: "aten" or "cublaslt". call: the expression that is evaluated, or the plan. calls: library calls for one
    `gemm`, more than 1 for a loop. copies: bytes copied in each `gemm`, by tensor ("a", "b", "result"). reason: why an
    engine that comes first was passed over, "" if none was.
    """

    engine: str
    call: str
    calls: int
    copies: dict[str, int]
    reason: str
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """One matmul.

    decision: "claimed", "multiply", "given back" or "declined". where: "file:line" in the user's source. sizes: what is
    multiplied once the labels are merged, {"batch", "m", "n", "k"}. layout: "NT" and so on, as PyTorch reads it.
    engine: who computes it. runs: what was decided when this spec was called with these shapes, by whichever program of
    the process; empty before the first call and for what Thunder computes. bytes_saved: copies that are not made any
    more. product: the name of what the user's operation makes, in the trace before, of program number `program`; result:
    of what the row makes, in the trace after: the same but for what was folded.
    """

    op: str
    where: str
    decision: str
    spec: str
    layout: str
    reason: str
    engine: str
    bytes_saved: int = 0
    backward: bool = False
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    result: str = ""
    program: int = 0
    product: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """What the executor did in a compiled program, forward and backward; print it, show it in a notebook, read `.rows`."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    programs: tuple[Program, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "version": VERSION,
            "rows": [dataclasses.asdict(r) for r in self.rows],
            "notes": list(self.notes),
            "programs": [program.counts() for program in self.programs],
        }

    def html(self) -> str:
        """One self-contained page: the rows, and each trace before and after side by side."""
        from thunder_gemm_ex.report.page import page

        return page(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to `path`: all of it or nothing. OSError where that cannot be written."""
        write_whole(Path(path), self.html())

    def __str__(self) -> str:
        from thunder_gemm_ex.report.text import plain

        return plain(self)

    def __rich__(self) -> Any:
        from thunder_gemm_ex.report.text import rich_report

        return rich_report(self)

    def _repr_html_(self) -> str:
        from thunder_gemm_ex.report.page import fragment

        return fragment(self)
