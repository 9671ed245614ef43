"""Rule: an operand absorbs the views above it, so that the matmul reads the tensor as it is stored.

Of a chain of views the longest prefix with the least cost is taken: a view is never folded where that would make more
GEMM calls, a summed label that falls apart, or a copy.
"""

from __future__ import annotations

import dataclasses

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph, Matmul, View
from thunder_gemm_ex.rules.layout import cost_of, layout_of
from thunder_gemm_ex.spec import Contraction, Cost, fold_operand


@dataclasses.dataclass(frozen=True)
class _Prefix:
    """The first views of a chain, folded: the contraction on `source`, and what that costs."""

    spec: Contraction
    source: TensorProxy
    views: tuple[View, ...]
    cost: Cost


def fold_operands(graph: Graph, fuel) -> None:
    """Fold what is worth folding into the operands of every matmul."""
    for matmul in graph.matmuls.values():
        for tensor, _ in list(matmul.operands()):
            _fold(graph, matmul, tensor, fuel)


def _fold(graph: Graph, matmul: Matmul, tensor: str, fuel) -> None:
    prefixes, refused = _prefixes(graph, matmul, tensor)
    best = min(reversed(prefixes), key=lambda p: p.cost)  # min keeps the first of equals: here the longest
    if best.views and fuel():
        before, after = (layout_of(graph, p).copied for p in (getattr(matmul, tensor), best.source))
        graph.move_operand(matmul, tensor, best.source)
        matmul.spec = best.spec
        matmul.folded += [f"{view.name} of {tensor}" for view in best.views]
        matmul.bytes_saved += (before - after) * best.source.dtype.bytes
    if best is not prefixes[-1]:
        worse = prefixes[prefixes.index(best) + 1]
        refused = f"{worse.views[-1].name} above {tensor} stays: folded, it would cost {worse.cost} for {best.cost}"
    if refused:
        matmul.kept[tensor] = refused


def _prefixes(graph: Graph, matmul: Matmul, tensor: str) -> tuple[list[_Prefix], str]:
    """Every prefix of the chain of views above an operand that can be folded, and why the chain ends if not at a base."""
    spec, source, views = matmul.spec, getattr(matmul, tensor), ()
    found = [_Prefix(spec, source, views, _cost(graph, matmul, tensor, spec, source))]
    while (view := graph.view_making(source)) is not None:
        folded = fold_operand(spec, tensor, view.steps)
        if folded is None:
            return found, f"{view.name} above {tensor} stays: it cannot be stated in labels"
        spec, source, views = folded, view.source, (*views, view)
        found.append(_Prefix(spec, source, views, _cost(graph, matmul, tensor, spec, source)))
    return found, ""


def _cost(graph: Graph, matmul: Matmul, tensor: str, spec: Contraction, source: TensorProxy) -> Cost:
    operands = {"a": matmul.a, "b": matmul.b} | ({} if tensor == "bias" else {tensor: source})
    return cost_of(graph, spec, operands["a"], operands["b"])
