"""Rule: a matmul for which nothing was gained goes back to the symbol that it came as."""

from __future__ import annotations

from thunder_gemm_ex.graph import Graph


def give_back(graph: Graph, claim: str) -> None:
    """Under claim "patterns" keep only matmuls that absorbed a view; under "all" keep every one."""
    for matmul in graph.matmuls.values():
        if matmul.decision != "claimed":
            continue
        if matmul.folded:
            matmul.reason = "; ".join(["folded " + ", ".join(matmul.folded), *matmul.kept.values()])
        elif claim == "all":
            matmul.reason = 'nothing to fold; claimed by gemm_claim="all"'
        else:
            matmul.decision = "given back"
            matmul.reason = (
                "; ".join(matmul.kept.values()) or "nothing to fold: one call of torch's own already does it"
            )
