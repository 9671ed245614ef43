"""The final traces of a compiled program, and the views that stand beside its contractions."""

import thunder

from tests.checks import MATMULS
from thunder_gemm_ex.graph import Graph
from thunder_gemm_ex.report import _compiled_parts as parts


def final_traces(compiled) -> list:
    """Forward and backward of everything that Thunder compiled: one program, or each part that ThunderFX cut out."""
    traces = []
    for part in parts(compiled):
        backward = thunder.last_backward_traces(part)
        traces += [thunder.last_traces(part)[-1], *([backward[-1]] if backward else [])]
    return traces


def views_beside_contractions(trace):
    """(contraction's bound symbol, position of the view, the view) for every view that feeds or follows one."""
    graph = Graph(trace)
    for position, bsym in enumerate(trace.bound_symbols):
        if bsym.sym.name not in MATMULS:
            continue
        for proxy in bsym.flat_proxy_args:
            view = graph.view_making(proxy)
            if view is not None:
                yield bsym, proxy.name, view
        for proxy in bsym.flat_proxy_outs:
            for user in graph.users.get(proxy.name, ()):
                view = graph.view_at(user)
                if view is not None:
                    yield bsym, proxy.name, view
