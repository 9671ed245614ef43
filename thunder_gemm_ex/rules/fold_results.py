"""Rule: a result absorbs what is below it, so that the matmul writes the tensor in the form in which it is wanted.

Views, sums, factors and terms alike, in whatever order they come. Only where nobody else wants the value in between, and
never a reordering whose strides a forward output would show: there the view costs nothing and leaves with the strides
that eager gives it. Never across a part of the joint trace into another: a backward view is not folded into a forward
matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Add, Graph, Matmul, Scale, Sum, View
from thunder_gemm_ex.rules.convolutions import follows_input
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.joiners import JOINERS
from thunder_gemm_ex.rules.layout import (
    Layout,
    cost_of,
    layout_of,
    leaves_strided,
    packed,
    strides_reach_output,
    viewed,
    views_from,
)
from thunder_gemm_ex.rules.sums import take_sum
from thunder_gemm_ex.rules.terms import take_factor, take_term
from thunder_gemm_ex.spec import Contraction, Permute, fold_result

# Lets the matmul take in the operation below it, if that is worth it.
Fold = Callable[[Graph, Matmul, Any, Fuel], bool]
# (spec, a, a's strides, b's strides) -> whether the engine that serves such tensors makes the result by a copy.
CopiesResult = Callable[[Contraction, TensorProxy, tuple[int, ...], tuple[int, ...]], bool]


def fold_results(graph: Graph, fuel: Fuel, copies_result: CopiesResult, *, terms: bool = True) -> None:
    """Fold what is worth folding into the result of every matmul; without `terms` neither factors nor what is added."""

    def fold_view(graph: Graph, matmul: Matmul, view: View, fuel: Fuel) -> bool:
        return _fold_view(graph, matmul, view, fuel, copies_result)

    folds: dict[type, Fold] = {View: fold_view, Sum: take_sum}
    if terms:
        folds |= {Scale: take_factor, Add: take_term}
    for matmul in list(graph.matmuls.values()):
        while _fold_one(graph, matmul, folds, fuel):
            pass


def _fold_one(graph: Graph, matmul: Matmul, folds: Mapping[type, Fold], fuel: Fuel) -> bool:
    kind = graph.user_of_result(matmul)
    fold = folds.get(type(kind))
    if matmul.scales is not None and not isinstance(kind, View):
        return False
    return fold is not None and fold(graph, matmul, kind, fuel)


def _fold_view(graph: Graph, matmul: Matmul, view: View, fuel: Fuel, copies_result: CopiesResult) -> bool:
    spec = fold_result(matmul.spec, view.steps)
    if spec is None:
        matmul.kept["result"] = f"{view.name} below stays: it cannot be stated in labels"
        return False
    if _shows_order(graph, matmul, view) and not (matmul.op == "convolution" and follows_input(spec)):
        matmul.kept["result"] = f"{view.name} below stays: the program returns it with its strides"
        return False
    layout = viewed(packed(matmul.spec.shape(matmul.spec.out)), view)
    before = cost_of(graph, matmul.spec, matmul.a, matmul.b, copies=layout.copies)
    after = cost_of(graph, spec, matmul.a, matmul.b)
    if after > before and not (matmul.backward and leaves_strided(graph, view, layout)):
        matmul.kept["result"] = f"{view.name} below stays: folded, it would cost {after} for {before}"
        return False
    joiner = _joined_below(graph, matmul, view, layout, copies_result)
    if joiner:
        matmul.kept["result"] = (
            f"{view.name} below stays: {joiner} copies what it gives anyway, in whatever order it lies"
        )
        return False
    if not fuel():
        return False
    graph.take_result(matmul, view)
    matmul.kept.pop("result", None)
    matmul.spec = spec
    matmul.folded.append(f"{view.name} of the result")
    matmul.bytes_saved += layout.copied * view.out.dtype.bytes
    return True


def _shows_order(graph: Graph, matmul: Matmul, view: View) -> bool:
    """Whether the program returns a tensor whose strides show that a view reordered the dimensions of a result."""
    reorders = any(isinstance(step, Permute) and list(step.perm) != sorted(step.perm) for step in view.steps)
    return reorders and not view.copying and not matmul.backward and strides_reach_output(graph, view.out)


def _joined_below(graph: Graph, matmul: Matmul, view: View, layout: Layout, copies_result: CopiesResult) -> str:
    """What reads the result through views that copy nothing, where folding them would mean a copy; "" if nothing does."""
    spec: Contraction | None = matmul.spec
    views = views_from(graph, view)
    for below in views:
        spec = fold_result(spec, below.steps) if spec is not None else None
        layout = layout if below is view else viewed(layout, below)
    users = graph.live_users(views[-1].out.name)
    names = [JOINERS.get(graph.bsym_at(user).sym.id, "") for user in users]
    if spec is None or layout.copies or views[-1].out.name in graph.returned or not all(names):
        return ""
    if cost_of(graph, spec, matmul.a, matmul.b) > cost_of(graph, matmul.spec, matmul.a, matmul.b):
        return ""
    strides = [layout_of(graph, x).strides for x in (matmul.a, matmul.b)]
    before, after = (copies_result(made, matmul.a, *strides) for made in (matmul.spec, spec))
    return next(iter(names), "") if after and not before else ""
