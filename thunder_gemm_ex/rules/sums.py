"""Rule: a sum below a matmul over a label of both operands is one more summed label of the GEMM.

Autograd writes such sums as the gradient of whatever was broadcast: an expanded weight, the keys of grouped queries.
"""

from __future__ import annotations

import dataclasses

from thunder_gemm_ex.graph import Graph, Matmul, Sum
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.layout import cost_of
from thunder_gemm_ex.spec import Contraction, atoms_of


def take_sum(graph: Graph, matmul: Matmul, found: Sum, fuel: Fuel) -> bool:
    """Let `matmul` sum what is summed below it, where both operands have the labels and the sum stays one GEMM's."""
    spec = summed(matmul.spec, found)
    if spec is None:
        matmul.kept["result"] = "sum below stays: a summed dimension is not one of both operands"
        return False
    before = cost_of(graph, matmul.spec, matmul.a, matmul.b, copies=1)
    after = cost_of(graph, spec, matmul.a, matmul.b)
    if after > before:
        matmul.kept["result"] = f"sum below stays: folded, it would cost {after} for {before}"
        return False
    if not fuel():
        return False
    elements = spec.extent(atoms_of(matmul.spec.out))
    graph.take_result(matmul, found)
    matmul.kept.pop("result", None)
    matmul.spec = spec
    matmul.folded.append("sum of the result")
    matmul.bytes_saved += elements * found.out.dtype.bytes
    return True


def summed(spec: Contraction, found: Sum) -> Contraction | None:
    """`spec` with the summed dimensions of its output as labels of k, None if an operand lacks one."""
    atoms = {x for d in found.dims for x in spec.out[d]}
    if spec.bias is not None or not atoms <= set(spec.batch):
        return None
    left = tuple(
        () if d in found.dims else dim for d, dim in enumerate(spec.out) if found.keepdim or d not in found.dims
    )
    return dataclasses.replace(spec, out=left)
