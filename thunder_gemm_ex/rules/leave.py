"""Rule: a matmul that a fuser behind takes into a region, together with what computes before or after, stays there.

Such a fuser lays out operands itself, and a call of ours would cut its region in two. Measured with torchcompile behind,
relative to torchcompile alone (one thread, processor time): attention_bshd forward 0.99 and training 0.86, moe_bmm forward
0.96, the other programs 0.98 to 1.01. With only views or other matmuls beside it there is no region to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.rules.find import Declined


def leave_to_fusers(graph: Graph, keep: Callable[[Matmul], bool]) -> list[Declined]:
    """Take the matmuls that are better off in a fuser's region out of `graph.matmuls`; they stay as they were.

    Those that `keep` names stay here: as pointwise work they join a region at least as well.
    """
    left = []
    for position, matmul in list(graph.matmuls.items()):
        if keep(matmul):
            continue
        fuser = graph.fuser_of(position)
        if fuser is not None and any(graph.fused(p) for p in _computing_neighbours(graph, position)):
            reason = f"{fuser.name} takes it into a region with its neighbours, views included"
            left.append(Declined(position, matmul.bsym, matmul.op, reason, "given back"))
    for item in left:
        del graph.matmuls[item.position]
    return left


def _computing_neighbours(graph: Graph, position: int) -> Iterator[int]:
    """Positions of the nearest operations before and after that are neither views nor matmuls."""
    bsym = graph.bsym_at(position)
    todo = [graph.makers[p.name] for p in bsym.flat_proxy_args if p.name in graph.makers]
    while todo:
        view = graph.view_at(at := todo.pop())
        if view is not None:
            todo += [graph.makers[view.source.name]] if view.source.name in graph.makers else []
        elif at not in graph.matmuls:
            yield at
    todo = [user for p in bsym.flat_proxy_outs for user in graph.live_users(p.name)]
    while todo:
        view = graph.view_at(at := todo.pop())
        if view is not None:
            todo += graph.live_users(view.out.name)
        elif at not in graph.matmuls:
            yield at
