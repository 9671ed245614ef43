"""What text and page say in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from thunder_gemm_ex.report.rows import Row, Run

if TYPE_CHECKING:
    from thunder_gemm_ex.report.program import Program


def headline(row: Row) -> str:
    """`m k, n k -> m n  (NT, m 4 n 5 k 6)`, "" for a row without a spec; a batch of 1 is not worth a word."""
    if not row.spec:
        return ""
    sizes = " ".join(f"{name} {size}" for name, size in row.sizes.items() if (name, size) != ("batch", 1))
    return f"{row.spec}  ({', '.join(filter(None, (row.layout, sizes)))})"


def run_lines(row: Row) -> Iterator[str]:
    """One line for each way in which the row's calls are carried out, what they copy, and what is saved."""
    for run in row.runs:
        yield f"{run.engine}: {run.call}{''.join(f', {word}' for word in _amounts(run))}"
        if run.reason:
            yield f"not cublaslt: {run.reason}"
    if row.decision == "claimed" and not row.runs:
        yield f"{row.engine}: not called yet"
    if row.bytes_saved:
        yield f"saves copies of {size(row.bytes_saved)}"


def _amounts(run: Run) -> Iterator[str]:
    if run.calls > 1:
        yield f"{run.calls} calls"
    for name, amount in run.copies.items():
        yield f"copies {name} ({size(amount)})"


def counted(program: Program) -> Iterator[str]:
    """`operations 21 -> 12, views 8 -> 0, fused regions 2 -> 1`: what is there, and "(no fuser)" where there is none."""
    try:
        counts = program.counts()
    except Exception as error:  # a fuser that cannot run a second time: the rows are worth as much without
        yield f"{program.name}: operations were not counted ({type(error).__name__}: {error})"
        return
    words = {"operations": "operations", "views": "of them views", "regions": "fused regions"}
    shown = [
        f"{word} {counts[key]['before']} -> {counts[key]['after']}"
        for key, word in words.items()
        if any(counts[key].values())
    ]
    yield f"{program.name}: {', '.join(shown)}"


def size(amount: int) -> str:
    """Bytes for people: "640 B", "1.5 MiB"."""
    value, units = float(amount), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}"
