"""Rule: an activation's derivative below a backward matmul is its epilogue, and so is the bias gradient below that.

The derivative of GELU reads the values that went into GELU, that of ReLU the mask that the forward's epilogue then also
writes. A bias gradient, the sum of the result over all but its last labels, comes with either. Not where a fuser takes the
derivative together with a neighbour other than that sum.
"""

from __future__ import annotations

from collections.abc import Callable

from thunder.core import dtypes
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph, Matmul, Slope, Sum, is_backward
from thunder_gemm_ex.rules.activations import unfit
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.layout import layout_of, packed
from thunder_gemm_ex.spec import atoms_of, mask_shape

_AUX_ROW = 8  # rows of values that a derivative reads are a multiple of this (cublasLt.h)


def take_derivatives(graph: Graph, served: Callable[[TensorProxy], bool], fuel: Fuel) -> None:
    """Let matmuls multiply their result by the derivative of an activation, and sum it for a bias."""
    for matmul in list(graph.matmuls.values()):
        if matmul.epilogue or matmul.decision != "claimed":
            continue
        slope = graph.user_of_result(matmul)
        if not isinstance(slope, Slope):
            continue
        summed = _bias_gradient(graph, matmul, slope)
        reason = unfit(matmul, served) or _unreadable(graph, slope) or _in_region(graph, slope, summed)
        if reason:
            matmul.kept["epilogue"] = f"{slope.name}'s derivative below stays: {reason}"
        elif fuel():
            _take(graph, matmul, slope, summed)


def _unreadable(graph: Graph, slope: Slope) -> str:
    if slope.read.name in graph.mutated:
        return "what it reads is written to"
    maker = graph.matmuls.get(graph.makers.get(slope.read.name, -1))
    if slope.name == "relu":
        written = maker is not None and maker.epilogue in ("relu", "relu_aux") and maker.out.name == slope.read.name
        return "" if written else "no matmul writes its mask"
    if maker is not None and maker.aux is not None and maker.aux.name == slope.read.name:
        return ""
    layout = layout_of(graph, slope.read)
    fits = layout.shape and layout.shape[-1] % _AUX_ROW == 0 and layout.strides == packed(layout.shape).strides
    return "" if fits else f"what it reads does not lie in rows of a multiple of {_AUX_ROW}"


def _in_region(graph: Graph, slope: Slope, summed: Sum | None) -> str:
    along = () if summed is None else (summed.position,)
    fused = graph.fused_with_others(slope.position, along=along)
    return "a fuser takes it into a region with its neighbours" if fused else ""


def _bias_gradient(graph: Graph, matmul: Matmul, slope: Slope) -> Sum | None:
    """The sum below the derivative that the same call can bring: of one matrix, over all but its last side."""
    spec = matmul.spec
    if matmul.bias is not None or spec.batch or not atoms_of(spec.out):
        return None
    for position in graph.live_users(slope.out.name):
        kind = graph.kind_at(position)
        if not isinstance(kind, Sum) or is_backward(graph.bsym_at(position)) != matmul.backward:
            continue
        kept = {x for d, dim in enumerate(spec.out) if d not in kind.dims for x in dim}
        if atoms_of(spec.out)[-1] in kept and kept in (set(spec.m), set(spec.n)):
            return None if graph.fused_with_others(position, along=(slope.position,)) else kind
    return None


def _take(graph: Graph, matmul: Matmul, slope: Slope, summed: Sum | None) -> None:
    aux = slope.read if slope.name == "gelu" else _mask(graph, slope.read)
    graph.take_result(matmul, slope)
    graph.add_operand(matmul, "aux", aux)
    matmul.epilogue = f"d{slope.name}"
    matmul.folded.append(f"{slope.name}'s derivative of the result")
    if summed is not None:
        graph.take_sum(matmul, summed, matmul.spec.out)


def _mask(graph: Graph, result: TensorProxy) -> TensorProxy:
    """The mask beside a ReLU's result; its matmul writes it from now on."""
    maker = graph.matmuls[graph.makers[result.name]]
    if maker.aux is None:
        maker.epilogue = "relu_aux"
        graph.make_beside(maker, "aux", graph.new_proxy(result, mask_shape(tuple(result.shape)), dtypes.uint8))
    assert maker.aux is not None
    return maker.aux
