"""Rule: a slice that only matmuls read stays a view, where a fuser would write it out as a tensor of its own.

A GEMM reads a slice through its strides; a region that happens to stand beside it would copy it to memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from thunder.core.prims import PrimIDs
from thunder.core.symbol import BoundSymbol
from thunder.executors.torchex import ex as torch_executor

from thunder_gemm_ex.graph import Graph
from thunder_gemm_ex.rules.fuel import Fuel

_INSIDE = {PrimIDs.SLICE, PrimIDs.SQUEEZE, PrimIDs.RESHAPE, PrimIDs.SHALLOW_COPY}


def keep_slices(graph: Graph, fuel: Fuel) -> None:
    """Hand slices that only matmuls need to torch, whose slices are views; `emit` writes them so."""
    if not graph.fusers:
        return
    for position, bsym in enumerate(graph.bsyms):
        if bsym is None or position in graph.matmuls or not is_slice(bsym) or not graph.fused(position):
            continue
        if bsym.sym.id in torch_executor.implmap and _only_matmuls_read(graph, bsym) and fuel():
            graph.views_of_torch.add(position)


def is_slice(bsym: BoundSymbol) -> bool:
    """Whether an operation takes parts of one tensor, each a view of it."""
    inside = {s.sym.id for s in _prims(bsym)}
    return PrimIDs.SLICE in inside and inside <= _INSIDE


def _prims(bsym: BoundSymbol) -> Iterator[BoundSymbol]:
    if not bsym.subsymbols:
        yield bsym
    for inner in bsym.subsymbols:
        yield from _prims(inner)


def _only_matmuls_read(graph: Graph, bsym: BoundSymbol) -> bool:
    users = [u for out in bsym.flat_proxy_outs for u in graph.live_users(out.name)]
    kept = [out.name in graph.returned or out.name in graph.mutated for out in bsym.flat_proxy_outs]
    return bool(users) and not any(kept) and all(u in graph.matmuls for u in users)
