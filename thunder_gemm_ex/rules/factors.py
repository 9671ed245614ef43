"""Rule: a factor of an operand is the GEMM's alpha, where matmuls alone want what was scaled."""

from __future__ import annotations

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph, Matmul, Scale
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.spec import atoms_of


def take_operand_factors(graph: Graph, fuel: Fuel) -> bool:
    """Let matmuls read what is scaled above them, unscaled; whether any did."""
    found = False
    for matmul in list(graph.matmuls.values()):
        for _, proxy in list(matmul.operands()):
            kind = graph.maker(proxy)
            if isinstance(kind, Scale) and not isinstance(kind.factor, TensorProxy):
                found |= _take(graph, kind, fuel)
    return found


def _take(graph: Graph, scale: Scale, fuel: Fuel) -> bool:
    if scale.out.name in graph.returned:
        return False
    users = graph.live_users(scale.out.name)
    matmuls = [graph.matmuls[p] for p in users if p in graph.matmuls]
    if len(matmuls) < len(users) or not all(_can_scale(m, scale) for m in matmuls) or not fuel():
        return False
    for matmul in matmuls:
        for tensor, proxy in list(matmul.operands()):
            if proxy.name == scale.out.name:
                graph.move_operand(matmul, tensor, scale.source)
                term = "beta" if tensor == "bias" else "alpha"
                setattr(matmul, term, getattr(matmul, term) * scale.factor)
                matmul.folded.append(f"a factor of {tensor}")
    return True


def _can_scale(matmul: Matmul, scale: Scale) -> bool:
    if isinstance(matmul.alpha, TensorProxy):
        return False
    # The C of a GEMM has a factor, beta; a smaller bias has none, and it is a small tensor to scale.
    if matmul.bias is None or matmul.bias.name != scale.out.name:
        return True
    return set(atoms_of(matmul.spec.bias or ())) == set(atoms_of(matmul.spec.out))
