"""A compiled program before and after the executor: its traces, and how many operations and regions they have."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from thunder.core.compile_data import compile_data_and_stats
from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.graph import View, read

_BOOKKEEPING = {PrimIDs.RETURN, PrimIDs.DEL, PrimIDs.COMMENT, PrimIDs.UNPACK_TRIVIAL, PrimIDs.UNPACK_SEQUENCE}


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """The trace that the executor was given and the one that it made, each as the fusers behind it leave it.

    Under autograd a trace holds forward and backward together, as Thunder has them at that stage. `data` and `stats` are
    what Thunder keeps of the compiled function.
    """

    name: str
    given: TraceCtx
    made: TraceCtx
    fusers: tuple[Any, ...]
    data: Any
    stats: Any

    @functools.cached_property
    def before(self) -> TraceCtx:
        """What would run without the executor."""
        return self._fused(self.given)

    @functools.cached_property
    def after(self) -> TraceCtx:
        """What runs with it."""
        return self._fused(self.made)

    def counts(self) -> dict[str, dict[str, int]]:
        """{"operations", "views", "regions"}: {"before", "after"}. A region counts as one operation; so does a view."""
        stages = {"before": _count(self.before), "after": _count(self.after)}
        return {what: {stage: found[what] for stage, found in stages.items()} for what in stages["before"]}

    def _fused(self, trace: TraceCtx) -> TraceCtx:
        with compile_data_and_stats(self.data, self.stats):
            for fuser in self.fusers:
                trace = fuser.fusion_pass(trace)
        return trace


def _count(trace: TraceCtx) -> dict[str, int]:
    operations = list(_operations(trace))
    views = sum(isinstance(read(position, bsym), View) for position, bsym in operations)
    regions = sum(bool(bsym.sym.is_fusion) for _, bsym in operations)
    return {"operations": len(operations), "views": views, "regions": regions}


def _operations(trace: TraceCtx) -> Iterator[tuple[int, BoundSymbol]]:
    bsyms: list[Any] = trace.bound_symbols
    for position, bsym in enumerate(bsyms):
        made = any(isinstance(p, TensorProxy) for p in bsym.flat_proxy_outs)
        if made and bsym.sym.id not in _BOOKKEEPING:
            yield position, bsym
