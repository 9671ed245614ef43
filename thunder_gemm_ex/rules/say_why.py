"""Last of the rules: a view that is still beside a matmul has its reason in the report, whichever rule left it there."""

from __future__ import annotations

from thunder_gemm_ex.graph import Graph, Matmul, View, is_backward


def say_why(graph: Graph) -> None:
    """Note for every matmul why a view of its result was not taken in, where no rule has said so."""
    for matmul in graph.matmuls.values():
        if matmul.decision == "multiply" or "result" in matmul.kept:
            continue
        users = graph.live_users(matmul.out.name)
        views = [v for v in map(graph.view_at, users) if v is not None]
        if views:
            matmul.kept["result"] = f"{views[0].name} below stays: {_why(graph, matmul, views[0], len(users))}"


def _why(graph: Graph, matmul: Matmul, view: View, users: int) -> str:
    if matmul.out.name in graph.returned:
        return "the program returns the result itself too"
    if users > 1:
        return f"the result has {users} users"
    bsym = graph.bsyms[view.position]
    if bsym is not None and is_backward(bsym) != matmul.backward:
        return "it belongs to the backward"
    return "it was not folded (fuel, or a matmul with terms of its own)"
