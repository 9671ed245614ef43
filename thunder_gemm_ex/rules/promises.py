"""Rule: under numerics that only cuBLASLt promises, a matmul that it does not serve is left to torch, with the reason."""

from __future__ import annotations

from collections.abc import Callable

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph
from thunder_gemm_ex.rules.find import Declined


def decline_unpromised(graph: Graph, numerics: str, served: Callable[[TensorProxy], bool]) -> list[Declined]:
    """Take matmuls out of the graph for which nobody keeps `numerics`; before any rule has changed them."""
    if numerics != "batch_invariant":
        return []
    declined = []
    for position, matmul in list(graph.matmuls.items()):
        if not served(matmul.a):
            del graph.matmuls[position]
            declined.append(Declined(position, matmul.bsym, matmul.op, _reason(matmul.a)))
    for position, bsym in enumerate(graph.bsyms):
        if bsym is not None and bsym.sym.id == "gemm" and not served(bsym.args[0]):
            graph.unpromised.add(position)
            declined.append(Declined(position, bsym, "gemm", _reason(bsym.args[0])))
    return declined


def _reason(operand: TensorProxy) -> str:
    where = f"{operand.dtype} on {operand.device.devicetype.name.lower()}"
    return (
        'gemm_numerics="batch_invariant" is kept by cuBLASLt alone, which does not compute '
        f"{where}: torch does, without that promise"
    )
