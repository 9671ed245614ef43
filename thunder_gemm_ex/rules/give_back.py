"""Rule: a matmul for which nothing was gained goes back to the symbol that it came as."""

from __future__ import annotations

from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.rules.convolutions import follows_input
from thunder_gemm_ex.rules.layout import strides_reach_output


def _shows_memory_format(graph: Graph, matmul: Matmul) -> bool:
    """Whether the strides of a convolution, channels last if its input is, can be seen in what the program returns."""
    return not matmul.backward and not follows_input(matmul.spec) and strides_reach_output(graph, matmul.out)


def give_back(graph: Graph, claim: str, numerics: str = "torch") -> None:
    """Under claim "patterns" keep only matmuls that absorbed a view; under "all", or numerics of our own, every one."""
    why = 'gemm_claim="all"' if claim == "all" else "" if numerics == "torch" else f'gemm_numerics="{numerics}"'
    for matmul in graph.matmuls.values():
        if matmul.decision != "claimed":
            continue
        if matmul.op == "convolution" and (not matmul.folded or _shows_memory_format(graph, matmul)):
            matmul.decision = "given back"
            matmul.reason = "; ".join(matmul.kept.values()) or "nothing to fold: it stays a convolution"
        elif matmul.folded:
            matmul.reason = "; ".join(["folded " + ", ".join(matmul.folded), *matmul.kept.values()])
        elif why:
            matmul.reason = "; ".join([f"nothing to fold; claimed by {why}", *matmul.kept.values()])
        else:
            matmul.decision = "given back"
            matmul.reason = (
                "; ".join(matmul.kept.values()) or "nothing to fold: one call of torch's own already does it"
            )
