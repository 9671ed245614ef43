"""Rule: a result absorbs what is added to it and the factor that scales it: the GEMM's beta and bias, and its alpha.

The product is then rounded once, with the terms, where separate operations round in between.
"""

from __future__ import annotations

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Add, Graph, Matmul, Scale
from thunder_gemm_ex.spec import Contraction, atoms_of, fold_operand
from thunder_gemm_ex.spec.contraction import Dims


def take_factor(graph: Graph, matmul: Matmul, scale: Scale, fuel) -> bool:
    """Let `matmul` scale its result by the factor; a tensor as factor only where nothing else scales it."""
    if isinstance(scale.factor, TensorProxy):
        scaled = isinstance(matmul.alpha, TensorProxy) or matmul.alpha != 1
        if scaled or matmul.bias is not None or not movable(graph, matmul):
            matmul.kept["result"] = f"the factor {scale.factor.name} below stays: the call has other terms already"
            return False
        if not fuel():
            return False
        matmul.alpha = scale.factor
        graph.take_result(matmul, scale, move=True)
        graph.note_use(matmul, scale.factor)
    else:
        if isinstance(matmul.alpha, TensorProxy) or not fuel():
            return False
        matmul.alpha *= scale.factor
        matmul.beta *= scale.factor
        graph.take_result(matmul, scale)
    matmul.folded.append("a factor of the result")
    return True


def take_term(graph: Graph, matmul: Matmul, add: Add, fuel) -> bool:
    """Let `matmul` add a tensor that is broadcast to its result: a bias, or the C of a GEMM."""
    if matmul.bias is not None or isinstance(matmul.alpha, TensorProxy) or not movable(graph, matmul):
        return False
    spec = matmul.spec.with_bias(_dims(matmul.spec.out, add.other))
    atoms = _least_atoms(graph, spec, add.other)
    if atoms == set(atoms_of(spec.out)):
        if graph.fused_with_others(add.position):
            matmul.kept["result"] = "add below stays: a fuser takes it into a region with its neighbours"
            return False
    elif atoms not in (set(spec.m), set(spec.n)):
        matmul.kept["result"] = "add below stays: what is added is neither as large as the result nor one row or column"
        return False
    if _kept_waiting(graph, matmul, add) > _bytes(matmul.out):
        matmul.kept["result"] = (
            "add below stays: operands would wait for its other term, and are larger than the result"
        )
        return False
    if not fuel():
        return False
    matmul.alpha, matmul.beta = matmul.alpha * add.alpha, add.beta
    matmul.spec = spec
    graph.take_result(matmul, add, move=True)
    graph.add_operand(matmul, "bias", add.other)
    matmul.folded.append("what is added to the result")
    return True


def _least_atoms(graph: Graph, spec: Contraction, other: TensorProxy) -> set[int]:
    """The labels that the added tensor has without the views that broadcast it."""
    while (view := graph.view_making(other)) is not None:
        folded = fold_operand(spec, "bias", view.steps)
        if folded is None:
            break
        spec, other = folded, view.source
    return set(atoms_of(spec.bias))


def _kept_waiting(graph: Graph, matmul: Matmul, add: Add) -> int:
    """Bytes that would stay until the addition for `matmul` alone, if what is added to its result is made after it."""
    if graph.makers.get(add.other.name, -1) < matmul.position:
        return 0
    return sum(_bytes(p) for p in {p.name: p for p in matmul.reads()}.values() if _done_before(graph, p, add.position))


def _done_before(graph: Graph, proxy: TensorProxy, position: int) -> bool:
    """Whether a tensor that the program made, not one that it was given, is needed nowhere from `position` on."""
    maker = graph.bsyms[graph.makers[proxy.name]] if proxy.name in graph.makers else None
    given = maker is None or maker.sym.id is PrimIDs.UNPACK_TRIVIAL
    return not given and proxy.name not in graph.returned and max(graph.live_users(proxy.name), default=-1) < position


def _bytes(proxy: TensorProxy) -> int:
    return proxy.numel * proxy.dtype.bytes


def movable(graph: Graph, matmul: Matmul) -> bool:
    """Whether a matmul may run later than where it stands: nothing that it reads is written to."""
    return not any(p.name in graph.mutated for p in matmul.reads())


def _dims(out: Dims, other: TensorProxy) -> Dims:
    """The labels of a tensor that broadcasts to the output."""
    shape = tuple(other.shape)
    last = out[len(out) - len(shape) :]
    return tuple(() if size == 1 else dim for size, dim in zip(shape, last))
