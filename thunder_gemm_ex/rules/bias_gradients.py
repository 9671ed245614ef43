"""Rule: the gradient of a bias, its output's gradient summed over the rows, comes with the weight's gradient.

The GEMM of a weight's gradient sums over those rows as well and reads the same tensor: cuBLASLt's BGRADA and BGRADB give its
sum beside the product. Not where a fuser takes the sum together with a neighbour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph, Matmul, Sum, View, is_backward
from thunder_gemm_ex.rules.activations import unfit
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.spec import atoms_of, fold_result
from thunder_gemm_ex.spec.contraction import Dims


def take_bias_gradients(graph: Graph, served: Callable[[TensorProxy], bool], fuel: Fuel) -> None:
    """Let backward matmuls bring sums of their operands over what they sum themselves."""
    for position in range(len(graph.bsyms)):
        kind = graph.kind_at(position)
        if not isinstance(kind, Sum) or not is_backward(graph.bsym_at(position)):
            continue
        matmul, tensor, dims = next(_summing(graph, kind), (None, "", ()))
        if matmul is None:
            continue
        reason = unfit(matmul, served)
        if not reason and graph.fused_with_others(position):
            reason = "a fuser takes it into a region with its neighbours"
        if reason:
            matmul.kept["epilogue"] = f"the bias gradient of {tensor} stays: {reason}"
        elif fuel():
            matmul.epilogue = f"bgrad{tensor}"
            graph.take_sum(matmul, kind, dims)


def _summing(graph: Graph, found: Sum) -> Iterator[tuple[Matmul, str, Dims]]:
    """The matmuls that sum an operand over exactly what `found` sums it over, which operand, and its dimensions there."""
    for matmul in graph.matmuls.values():
        plain = not matmul.epilogue and matmul.bias is None and not matmul.scaled and not matmul.spec.batch
        if not plain or not matmul.backward or matmul.decision != "claimed":
            continue
        # Whoever reads the sum has to come after the call that then makes it.
        if any(user < matmul.position for user in graph.live_users(found.out.name)):
            continue
        for tensor in ("a", "b"):
            dims = _seen(graph, matmul, tensor, found.source)
            if dims is None:
                continue
            kept = atoms_of(dim for d, dim in enumerate(dims) if d not in found.dims)
            if set(kept) == set(matmul.spec.m if tensor == "a" else matmul.spec.n) and kept:
                yield matmul, tensor, dims


def _seen(graph: Graph, matmul: Matmul, tensor: str, source: TensorProxy) -> Dims | None:
    """The labels of `source`, where it is an operand of the matmul or views of it; else None."""
    views: list[View] = []
    operand = getattr(matmul, tensor)
    while source.name != operand.name:
        view = graph.view_making(source)
        if view is None:
            return None
        views.insert(0, view)
        source = view.source
    dims = getattr(matmul.spec, tensor)
    steps = [step for view in views for step in view.steps]
    spec = fold_result(dataclasses.replace(matmul.spec, a=dims, b=(), out=dims, bias=None), steps)
    # A view that splits a label would split it in the matmul too: there is nothing to gain that is worth that.
    return None if spec is None or not set(atoms_of(spec.out)) <= set(matmul.spec.sizes) else spec.out
