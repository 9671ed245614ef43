"""From a compiled function to its report: the record of its last specialisation, and what was decided at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from thunder_gemm_ex.engines import choose
from thunder_gemm_ex.report.places import in_users_file
from thunder_gemm_ex.report.program import Program
from thunder_gemm_ex.report.record import Call, Record, records
from thunder_gemm_ex.report.rows import Report, Row, Run


def explain(fn: Callable) -> Report:
    """The report of a function compiled by thunder.jit or thunder.dynamo.thunderfx, for its last called specialisation.

    Raises ValueError if `fn` was not compiled by Thunder, was never called, or was compiled without this executor.
    """
    parts = _compiled_parts(fn)
    if not parts:
        raise ValueError(f"fn must be a function compiled by thunder.jit or thunderfx and called once, was {fn!r}")
    found = [(part, graphs, rec) for part, graphs in parts if (rec := _last_record(part)) is not None]
    if not found:
        raise ValueError("fn was compiled without gemm_ex: pass executors=gx.executors() to thunder.jit")
    return Report(
        tuple(row for index, (_, graphs, rec) in enumerate(found) for row in _rows(index, graphs, rec)),
        tuple(dict.fromkeys(note for _, _, rec in found for note in rec.notes)),
        tuple(_program(part, rec) for part, _, rec in found),
    )


def _compiled_parts(fn: Callable) -> list[tuple[Any, tuple]]:
    """(thunder-compiled function, graphs that Dynamo wrote for it): `fn`, or those of each subgraph that ThunderFX made."""
    if hasattr(fn, "_lc_cs"):
        return [(fn, ())]
    backend = getattr(fn, "_backend", None)
    infos = getattr(backend, "subgraph_infos", ())
    return [
        (part, (part._model, info.original_graph_module)) for info in infos for part in info.thunder_compiled_fns or ()
    ]


def _last_record(part: Any) -> Record | None:
    import thunder

    stats = thunder.compile_stats(part)
    if stats is None:
        return None
    if stats.last_traces is None:
        raise ValueError("fn has not been called yet: nothing is compiled before the first call")
    kept = records.get(stats, [])
    names = stats.last_traces[-1].names if stats.last_traces else None
    return next((r for r in reversed(kept) if r.names is names), kept[-1] if kept else None)


def _program(part: Any, rec: Record) -> Program:
    import thunder

    name = getattr(part, "__name__", None) or type(getattr(part, "_model", part)).__name__
    return Program(name, rec.before, rec.after, rec.fusers, part._lc_cd, thunder.compile_stats(part))


def _rows(index: int, graphs: tuple, rec: Record) -> list[Row]:
    return [
        dataclasses.replace(row, where=in_users_file(row.where, graphs), runs=_runs(row, call), program=index)
        for row, call in zip(rec.rows, rec.calls)
    ]


def _runs(row: Row, call: Call | None) -> tuple[Run, ...]:
    if call is None:
        return ()
    found = choose.runs_of(row.spec, call.a, call.b, scaled=call.scaled, scaled_bias=call.scaled_bias)
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
