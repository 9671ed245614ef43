"""`gx.explain(jfn)`: one row for every matmul of a compiled program, and what was done with it, and why."""

from __future__ import annotations

import dataclasses
import io
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from thunder.core.compile_data import _compile_data
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.rules.find import Declined
from thunder_gemm_ex.spec import print_spec


@dataclasses.dataclass(frozen=True)
class Row:
    """One matmul. `decision` is "claimed", "multiply", "given back" or "declined"; `bytes_saved` counts copies not made."""

    op: str
    where: str
    decision: str
    spec: str
    layout: str
    reason: str
    engine: str
    bytes_saved: int = 0
    backward: bool = False


@dataclasses.dataclass(frozen=True)
class Report:
    """What the executor did in a compiled program, forward and backward; print it, or read `.rows`."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {"version": 1, "rows": [dataclasses.asdict(r) for r in self.rows], "notes": list(self.notes)}

    def __str__(self) -> str:
        return _render(self, 120)


# What was recorded while compiling, by Thunder's statistics object of the compiled function; it goes when that goes.
_records: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class _Record:
    """The report of one compiled specialisation; `names` identifies its traces, which all share that one set."""

    names: set
    report: Report


def record(graph: Graph, declined: Iterable[Declined], fusers_before: list[str]) -> None:
    """Keep the rows of the program being compiled."""
    _, stats = _compile_data.get()
    if stats is None:
        return
    items: list[Matmul | Declined] = sorted([*graph.matmuls.values(), *declined], key=lambda x: x.position)
    places = _places(items)
    notes = []
    if fusers_before:
        notes.append(f"gemm_ex is listed after {', '.join(fusers_before)} and sees only what that left: list it first.")
    rows = tuple(_row(item, places[item.position]) for item in items)
    _records.setdefault(stats, []).append(_Record(graph.trace.names, Report(rows, tuple(notes))))


def record_failure(trace: TraceCtx, rule: str, error: Exception) -> None:
    """Keep one row that says why the program being compiled is as Thunder made it."""
    _, stats = _compile_data.get()
    if stats is None:
        return
    row = Row("program", "", "declined", "", "", f"{rule} failed with {type(error).__name__}: {error}", "thunder")
    _records.setdefault(stats, []).append(_Record(trace.names, Report((row,))))


def explain(fn: Callable) -> Report:
    """The report of a function compiled by thunder.jit or thunder.dynamo.thunderfx, for its last called specialisation.

    Raises ValueError if `fn` was not compiled by Thunder, was never called, or was compiled without this executor.
    """
    import thunder

    parts = _compiled_parts(fn)
    if not parts:
        raise ValueError(f"fn must be a function compiled by thunder.jit or thunderfx and called once, was {fn!r}")
    reports = []
    for part in parts:
        stats = thunder.compile_stats(part)
        records = _records.get(stats, [])
        if stats is not None and stats.last_traces is None:
            raise ValueError("fn has not been called yet: nothing is compiled before the first call")
        names = stats.last_traces[-1].names if stats is not None and stats.last_traces else None
        found = next((r for r in reversed(records) if r.names is names), records[-1] if records else None)
        if found is not None:
            reports.append(found.report)
    if not reports:
        raise ValueError("fn was compiled without gemm_ex: pass executors=gx.executors() to thunder.jit")
    return Report(
        tuple(row for r in reports for row in r.rows), tuple(dict.fromkeys(n for r in reports for n in r.notes))
    )


def _compiled_parts(fn: Callable) -> list:
    """The thunder-compiled functions behind `fn`: itself, or those of each subgraph that ThunderFX made."""
    if hasattr(fn, "_lc_cs"):
        return [fn]
    backend = getattr(fn, "_backend", None)
    infos = getattr(backend, "subgraph_infos", ())
    return [part for info in infos for part in info.thunder_compiled_fns]


def _row(item: Matmul | Declined, where: str) -> Row:
    if isinstance(item, Declined):
        return Row(item.op, where, "declined", "", "", item.reason, "thunder", 0, item.backward)
    shown = (print_spec(item.spec), item.spec.layout())
    saved = item.bytes_saved if item.decision in ("claimed", "multiply") else 0
    return Row(item.op, where, item.decision, *shown, item.reason, _engine(item), saved, item.backward)


def _engine(item: Matmul) -> str:
    if item.decision == "multiply":
        return "pointwise"
    if item.decision == "given back":
        return "thunder"
    from thunder.core.devices import DeviceType
    from thunder.core.dtypes import to_torch_dtype

    usable = item.a.device.devicetype is DeviceType.CUDA and cublaslt.status()["usable"]
    return "cublaslt" if usable and to_torch_dtype(item.a.dtype) in cublaslt.DTYPES else "aten"


def _places(items: list[Matmul | Declined]) -> dict[int, str]:
    """Where each matmul stands in the user's source. A gradient has no line of its own: it gets its forward matmul's."""
    forward = {}
    for item in items:
        if isinstance(item, Matmul) and not item.backward:
            forward |= {item.a.name: item, item.b.name: item}
    places = {}
    for item in items:
        place = _place(item.bsym)
        if not place and isinstance(item, Matmul):
            owner = next((forward[p.name] for p in (item.b, item.a) if p.name in forward), None)
            place = "" if owner is None else _place(owner.bsym)
        places[item.position] = place
    return places


def _place(bsym: BoundSymbol) -> str:
    line = None if bsym.source_positions is None else bsym.source_positions.lineno
    return "" if bsym.source_filename is None or line is None else f"{bsym.source_filename}:{line}"


def _render(report: Report, width: int) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for heading in ("op", "decision", "spec", "layout", "engine", "reason"):
        table.add_column(heading, overflow="fold")
    for row in report.rows:
        op = f"{row.op}{' (backward)' if row.backward else ''}\n{_short(row.where)}".rstrip()
        table.add_row(op, row.decision, row.spec, row.layout, row.engine, row.reason)
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False)
    console.print(table)
    for note in report.notes:
        console.print(note)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _short(where: str) -> str:
    return where.rpartition("/")[2]
