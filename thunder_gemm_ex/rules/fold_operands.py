"""Rule: an operand absorbs the views above it, so that the matmul reads the tensor as it is stored.

Of a chain of views the longest prefix with the least cost is taken: a view is never folded where that would make more
GEMM calls, a summed label that falls apart, or a copy. A cast between views and matmul moves above the views.
"""

from __future__ import annotations

import dataclasses

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Cast, Graph, Matmul, View
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.layout import Layout, cost_with, layout_of
from thunder_gemm_ex.rules.saved import saves_more
from thunder_gemm_ex.spec import Contraction, Cost, fold_operand


@dataclasses.dataclass(frozen=True, eq=False)
class _Prefix:
    """The first views of a chain, folded: the contraction on `source`, cast if `cast` is given, and what that costs."""

    spec: Contraction
    source: TensorProxy
    views: tuple[View, ...]
    cost: Cost
    cast: Cast | None = None


def fold_operands(graph: Graph, fuel: Fuel) -> None:
    """Fold what is worth folding into the operands of every matmul."""
    for matmul in graph.matmuls.values():
        for tensor, _ in list(matmul.operands()):
            _fold(graph, matmul, tensor, fuel)


def _fold(graph: Graph, matmul: Matmul, tensor: str, fuel: Fuel) -> None:
    prefixes, refused = _prefixes(graph, matmul, tensor)
    best = min(reversed(prefixes), key=lambda p: p.cost)  # min keeps the first of equals: here the longest
    if best.views and fuel():
        old = getattr(matmul, tensor)
        before, after = (layout_of(graph, p).copied for p in (old, best.source))
        source = best.source if best.cast is None else graph.cast_at(best.cast, best.source)
        graph.move_operand(matmul, tensor, source)
        matmul.spec = best.spec
        matmul.folded += [f"{view.name} of {tensor}" for view in best.views]
        matmul.bytes_saved += (before - after) * old.dtype.bytes
    if best is not prefixes[-1]:
        worse = prefixes[prefixes.index(best) + 1]
        refused = f"{worse.views[-1].name} above {tensor} stays: folded, it would cost {worse.cost} for {best.cost}"
    if refused:
        matmul.kept[tensor] = refused
    else:
        matmul.kept.pop(tensor, None)


def _prefixes(graph: Graph, matmul: Matmul, tensor: str) -> tuple[list[_Prefix], str]:
    """Every prefix of the chain of views above an operand that can be folded, and why the chain ends if not at a base."""
    spec, source, cast = matmul.spec, getattr(matmul, tensor), None
    views: tuple[View, ...] = ()
    found = [_Prefix(spec, source, views, _cost(graph, matmul, tensor, spec, source))]
    while (kind := graph.maker(source)) is not None:
        if isinstance(kind, Cast) and cast is None and _only_matmuls_need(graph, kind):
            cast, source = kind, kind.source
            continue
        if not isinstance(kind, View):
            break
        folded = fold_operand(spec, tensor, kind.steps)
        if folded is None:
            return found, f"{kind.name} above {tensor} stays: it cannot be stated in labels"
        if saves_more(graph, kind):
            return found, f"{kind.name} above {tensor} stays: without its copy more would be saved for the backward"
        spec, source, views = folded, kind.source, (*views, kind)
        found.append(_Prefix(spec, source, views, _cost(graph, matmul, tensor, spec, source), cast))
    return found, ""


def _cost(graph: Graph, matmul: Matmul, tensor: str, spec: Contraction, source: TensorProxy) -> Cost:
    proxies = {"a": matmul.a, "b": matmul.b} | ({} if tensor == "bias" else {tensor: source})
    layouts: dict[str, Layout] = {name: layout_of(graph, p) for name, p in proxies.items()}
    return cost_with(spec, layouts["a"], layouts["b"])


def _only_matmuls_need(graph: Graph, cast: Cast) -> bool:
    """Whether nobody but matmuls, directly or through views, wants what was cast: else it would be cast twice."""
    todo = [cast.out.name]
    while todo:
        name = todo.pop()
        if name in graph.returned:
            return False
        for position in graph.live_users(name):
            if position in graph.matmuls:
                continue
            view = graph.view_at(position)
            if view is None:
                return False
            todo.append(view.out.name)
    return True
