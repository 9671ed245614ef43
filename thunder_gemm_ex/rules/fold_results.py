"""Rule: a result absorbs the views below it, so that the matmul writes the tensor in the order in which it is wanted.

Only where nobody else wants the unviewed value, and never a reordering whose strides a forward output would show: there
the view costs nothing and leaves with the strides that eager gives it. Never across a part of the joint trace into
another: a backward view is not folded into a forward matmul.
"""

from __future__ import annotations

from thunder_gemm_ex.graph import Graph, Matmul, View, is_backward
from thunder_gemm_ex.rules.layout import apply, cost_of, packed, strides_reach_output
from thunder_gemm_ex.spec import Permute, fold_result


def fold_results(graph: Graph, fuel) -> None:
    """Fold what is worth folding into the result of every matmul."""
    for matmul in graph.matmuls.values():
        while (view := _only_user(graph, matmul)) is not None and _fold(graph, matmul, view, fuel):
            pass


def _only_user(graph: Graph, matmul: Matmul) -> View | None:
    users = graph.users.get(matmul.out.name, [])
    if len(users) != 1 or matmul.out.name in graph.returned:
        return None
    view = graph.view_at(users[0])
    return view if view is not None and is_backward(graph.bsyms[users[0]]) == matmul.backward else None


def _fold(graph: Graph, matmul: Matmul, view: View, fuel) -> bool:
    spec = fold_result(matmul.spec, view.steps)
    if spec is None:
        matmul.kept["result"] = f"{view.name} below stays: it cannot be stated in labels"
        return False
    reorders = any(isinstance(step, Permute) and list(step.perm) != sorted(step.perm) for step in view.steps)
    if reorders and not matmul.backward and strides_reach_output(graph, view.out):
        matmul.kept["result"] = f"{view.name} below stays: the program returns it with its strides"
        return False
    layout = packed(matmul.spec.shape(matmul.spec.out))
    for step in view.steps:
        layout = apply(layout, step)
    before = cost_of(graph, matmul.spec, matmul.a, matmul.b, copies=layout.copies)
    after = cost_of(graph, spec, matmul.a, matmul.b)
    if after > before:
        matmul.kept["result"] = f"{view.name} below stays: folded, it would cost {after} for {before}"
        return False
    if not fuel():
        return False
    graph.take_result(matmul, view)
    matmul.kept.pop("result", None)
    matmul.spec = spec
    matmul.folded.append(f"{view.name} of the result")
    matmul.bytes_saved += layout.copied * view.out.dtype.bytes
    return True
