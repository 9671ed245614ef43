"""Keeping, while a program is compiled, what its report will need."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from thunder.core.compile_data import _compile_data
from thunder.core.devices import DeviceType
from thunder.core.dtypes import to_torch_dtype
from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.engines.told import SCALED
from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.report.places import places
from thunder_gemm_ex.report.rows import Row
from thunder_gemm_ex.rules.find import Declined
from thunder_gemm_ex.spec import print_spec


@dataclasses.dataclass(frozen=True)
class Call:
    """What identifies the run-time decisions of a claimed row: shapes, and which terms scale something."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    itemsize: int
    scaled: bool | None
    scaled_bias: bool
    numerics: str = "torch"
    epilogue: str = ""

    @property
    def terms(self) -> dict[str, Any]:
        """What `engines.choose.runs_of` wants to know besides spec and shapes."""
        names = ("scaled", "scaled_bias", "numerics", "epilogue")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True)
class Record:
    """One compiled specialisation: its rows, the call of each claimed one, and its trace before and after.

    The traces of a specialisation all share one set of names, which identifies it.
    """

    rows: tuple[Row, ...]
    calls: tuple[Call | None, ...]
    notes: tuple[str, ...]
    before: TraceCtx
    after: TraceCtx
    fusers: tuple[Any, ...]

    @property
    def names(self) -> set[str]:
        """What the traces of this specialisation have in common, and no other has."""
        return self.before.names


# By Thunder's statistics object of the compiled function; a record goes when that goes.
records: weakref.WeakKeyDictionary[Any, list[Record]] = weakref.WeakKeyDictionary()
# Told (Thunder's compile data, its statistics object) of every program that is compiled with the executor.
watchers: list[Callable[[Any, Any], None]] = []


def record(
    graph: Graph, declined: Iterable[Declined], fusers_before: list[str], after: TraceCtx, numerics: str
) -> None:
    """Keep the rows of the program being compiled, whose trace the executor has just rewritten as `after`."""
    data, stats = _compile_data.get()
    if stats is None:
        return
    for watcher in watchers:
        watcher(data, stats)
    items: list[Matmul | Declined] = sorted([*graph.matmuls.values(), *declined], key=lambda x: x.position)
    where = places(graph, items)
    notes = []
    if fusers_before:
        notes.append(f"gemm_ex is listed after {', '.join(fusers_before)} and sees only what that left: list it first.")
    made = Record(
        tuple(_row(item, where[item.position]) for item in items),
        tuple(_call(item, numerics) for item in items),
        tuple(notes),
        graph.trace,
        after,
        graph.fusers,
    )
    records.setdefault(stats, []).append(made)


def record_failure(trace: TraceCtx, rule: str, error: Exception) -> None:
    """Keep one row that says why the program being compiled is as Thunder made it."""
    data, stats = _compile_data.get()
    if stats is None:
        return
    for watcher in watchers:
        watcher(data, stats)
    row = Row("program", "", "declined", "", "", f"{rule} failed with {type(error).__name__}: {error}", "thunder")
    records.setdefault(stats, []).append(Record((row,), (None,), (), trace, trace, ()))


def _row(item: Matmul | Declined, where: str) -> Row:
    if isinstance(item, Declined):
        result = next((p.name for p in item.bsym.flat_proxy_outs), "")
        return Row(item.op, where, item.decision, "", "", item.reason, "thunder", 0, item.backward, result=result)
    spec = item.spec
    groups = {"batch": spec.batch, "m": spec.m, "n": spec.n, "k": spec.k}
    return Row(
        item.op,
        where,
        item.decision,
        print_spec(spec),
        spec.layout(),
        item.reason,
        _engine(item),
        item.bytes_saved if item.decision in ("claimed", "multiply") else 0,
        item.backward,
        {name: spec.extent(group) for name, group in groups.items()},
        result=item.out.name,
        product=item.bsym.flat_proxy_outs[0].name,
    )


def _call(item: Matmul | Declined, numerics: str) -> Call | None:
    if isinstance(item, Declined) or item.decision != "claimed":
        return None
    shapes = (tuple(item.a.shape), tuple(item.b.shape))
    scaled = None if isinstance(item.alpha, TensorProxy) else item.alpha != 1
    return Call(
        *shapes,
        item.a.dtype.bytes,
        scaled,
        item.bias is not None and item.beta != 1,
        numerics,
        SCALED if item.scales else item.epilogue,
    )


def _engine(item: Matmul) -> str:
    if item.decision == "multiply":
        return "pointwise"
    if item.decision == "given back":
        return "thunder"
    usable = item.a.device.devicetype is DeviceType.CUDA and cublaslt.status()["usable"]
    computed = item.scales is not None or to_torch_dtype(item.a.dtype) in cublaslt.DTYPES
    return "cublaslt" if usable and computed else "aten"
