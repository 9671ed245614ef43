"""From a compiled function to its report: the record of its last specialisation, and what was decided at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from thunder_gemm_ex.engines import told
from thunder_gemm_ex.report.places import in_users_file
from thunder_gemm_ex.report.program import Program
from thunder_gemm_ex.report.record import Call, Record, records
from thunder_gemm_ex.report.rows import Report, Row, Run


@dataclasses.dataclass(frozen=True)
class Part:
    """A thunder-compiled function: what Thunder keeps of it, and the graphs that Dynamo wrote for it."""

    data: Any
    stats: Any
    graphs: tuple[Any, ...] = ()


def explain(fn: Callable[..., Any]) -> Report:
    """The report of a function compiled by thunder.jit or thunder.dynamo.thunderfx, for its last called specialisation.

    Raises ValueError if `fn` was not compiled by Thunder, was never called, or was compiled without this executor.
    """
    parts = _parts_of(fn)
    if not parts:
        raise ValueError(f"fn must be a function compiled by thunder.jit or thunderfx and called once, was {fn!r}")
    if any(part.stats.last_traces is None for part in parts):
        raise ValueError("fn has not been called yet: nothing is compiled before the first call")
    report = report_of(parts)
    if not report.programs:
        raise ValueError("fn was compiled without gemm_ex: pass executors=gx.executors() to thunder.jit")
    return report


def report_of(parts: Iterable[Part]) -> Report:
    """One report of several compiled functions; those that the executor never saw are left out."""
    found = [(part, rec) for part in parts if (rec := _last_record(part)) is not None]
    return Report(
        tuple(row for index, (part, rec) in enumerate(found) for row in _rows(index, part, rec)),
        tuple(dict.fromkeys(note for _, rec in found for note in rec.notes)),
        tuple(_program(part, rec) for part, rec in found),
    )


def parts_of_graph(info: Any) -> list[Part]:
    """What ThunderFX compiled for one of Dynamo's graphs (a `thunder.dynamo.utils.SubgraphInfo`)."""
    return [
        Part(part._lc_cd, part._lc_cs, (part._model, info.original_graph_module))
        for part in info.thunder_compiled_fns or ()
    ]


def _parts_of(fn: Any) -> list[Part]:
    if hasattr(fn, "_lc_cs"):
        return [Part(fn._lc_cd, fn._lc_cs)]
    infos = getattr(getattr(fn, "_backend", None), "subgraph_infos", ())
    return [part for info in infos for part in parts_of_graph(info)]


def _last_record(part: Part) -> Record | None:
    kept = records.get(part.stats, [])
    names = part.stats.last_traces[-1].names if part.stats.last_traces else None
    return next((r for r in reversed(kept) if r.names is names), kept[-1] if kept else None)


def _program(part: Part, rec: Record) -> Program:
    fn = part.data.fn
    return Program(getattr(fn, "__name__", type(fn).__name__), rec.before, rec.after, rec.fusers, part.data, part.stats)


def _rows(index: int, part: Part, rec: Record) -> list[Row]:
    return [
        dataclasses.replace(row, where=in_users_file(row.where, part.graphs), runs=_runs(row, call), program=index)
        for row, call in zip(rec.rows, rec.calls)
    ]


def _runs(row: Row, call: Call | None) -> tuple[Run, ...]:
    if call is None:
        return ()
    found = told.runs_of(row.spec, call.a, call.b, **call.terms)
    return tuple(
        Run(
            run.decision.engine,
            run.decision.detail,
            run.calls,
            {name: elements * call.itemsize for name, elements in run.copies.items()},
            run.decision.reason,
            run.a_strides,
            run.b_strides,
        )
        for run in found
    )
