"""Rule: where nothing is summed (every k has size 1) a matmul is a broadcast multiply, which any fuser takes in."""

from __future__ import annotations

from thunder_gemm_ex.graph import Graph
from thunder_gemm_ex.rules.find import is_floating
from thunder_gemm_ex.rules.fuel import Fuel


def mark_multiplies(graph: Graph, fuel: Fuel) -> None:
    """Decide "multiply" for every matmul without a summed atom. Sizes are static here: symbolic ones were declined."""
    for matmul in graph.matmuls.values():
        if matmul.spec.k:
            continue
        if not is_floating(matmul.a):
            # Eager refuses some integer products by device: a multiply would succeed where the program should not.
            matmul.kept["k"] = f"K=1 stays a matmul: {matmul.a.dtype} is not a floating dtype"
        elif fuel():
            matmul.decision = "multiply"
            matmul.reason = "K=1: nothing is summed, so it is a broadcast multiply inside the fused region"
