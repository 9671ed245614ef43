"""Rule: a result absorbs what is added to it and the factor that scales it: the GEMM's beta and bias, and its alpha.

The product is then rounded once, with the terms, where separate operations round in between.
"""

from __future__ import annotations

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Add, Graph, Matmul, Scale
from thunder_gemm_ex.spec import atoms_of
from thunder_gemm_ex.spec.contraction import Dims


def take_factor(graph: Graph, matmul: Matmul, scale: Scale, fuel) -> bool:
    """Let `matmul` scale its result by the factor; a tensor as factor only where nothing else scales it."""
    if isinstance(scale.factor, TensorProxy):
        if matmul.alpha != 1 or matmul.bias is not None or not movable(graph, matmul):
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
    """Let `matmul` add a tensor that is broadcast to its result: a bias."""
    if matmul.bias is not None or isinstance(matmul.alpha, TensorProxy) or not movable(graph, matmul):
        return False
    dims = _dims(matmul.spec.out, add.other)
    # One as large as the result is another operation's result: there the add is part of a fuser's region for free.
    if set(atoms_of(dims)) == set(atoms_of(matmul.spec.out)) and atoms_of(dims):
        return False
    if not fuel():
        return False
    matmul.alpha, matmul.beta = matmul.alpha * add.alpha, add.beta
    matmul.spec = matmul.spec.with_bias(dims)
    graph.take_result(matmul, add, move=True)
    graph.add_operand(matmul, "bias", add.other)
    matmul.folded.append("a bias")
    return True


def movable(graph: Graph, matmul: Matmul) -> bool:
    """Whether a matmul may run later than where it stands: nothing that it reads is written to."""
    return not any(p.name in graph.mutated for p in matmul.reads())


def _dims(out: Dims, other: TensorProxy) -> Dims:
    """The labels of a tensor that broadcasts to the output."""
    shape = tuple(other.shape)
    last = out[len(out) - len(shape) :]
    return tuple(() if size == 1 else dim for size, dim in zip(shape, last))
