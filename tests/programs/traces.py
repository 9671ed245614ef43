"""The final traces of a compiled program, and the views beside its contractions of which its report does not say why."""

from collections.abc import Iterator

import thunder_gemm_ex as gx
from tests.checks import MATMULS
from thunder_gemm_ex.graph import Graph
from thunder_gemm_ex.report.explain import _parts_of as parts


def final_traces(compiled) -> list:
    """Forward and backward of everything that Thunder compiled: one program, or each part that ThunderFX cut out."""
    traces = []
    for part in parts(compiled):
        backward = part.stats.last_backward_traces
        traces += [part.stats.last_traces[-1], *([backward[-1]] if backward else [])]
    return traces


def unexplained_views(compiled) -> list[str]:
    """A sentence for every view that feeds or follows a contraction and that the contraction's row does not name."""
    traces = final_traces(compiled)
    found = [x for trace in traces for x in _views(trace)]
    reasons = _reasons(compiled, [bsym for trace in traces for bsym in _contractions(trace)])
    return [f"{text}: {bsym.python(0)[0].strip()}" for bsym, text in found if text not in reasons[bsym.output.name]]


def _contractions(trace) -> list:
    return [bsym for bsym in trace.bound_symbols if bsym.sym.name in MATMULS]


def _views(trace) -> Iterator[tuple]:
    """(contraction, what its row should say) for every view above an operand and below a result."""
    graph = Graph(trace)
    for bsym in _contractions(trace):
        operands = [x for x in bsym.args if hasattr(x, "name")]
        for tensor, proxy in zip(("a", "b", "bias"), operands):
            view = graph.view_making(proxy)
            if view is not None:
                yield bsym, f"{view.name} above {tensor} stays"
        for view in filter(None, map(graph.view_at, graph.users.get(bsym.output.name, ()))):
            yield bsym, f"{view.name} below stays"


def _reasons(compiled, contractions: list) -> dict[str, str]:
    """The reason in the row of each contraction, by the name of its result: rows are in the order of the trace."""
    rows = [r for r in gx.explain(compiled).rows if r.decision in ("claimed", "given back")]
    for row, bsym in zip(rows, contractions, strict=True):
        assert (bsym.sym.name == "gemm") == (row.decision == "claimed"), (row, bsym)
        assert row.decision == "given back" or bsym.args[2] == row.spec, (row, bsym)
    return {bsym.output.name: row.reason for row, bsym in zip(rows, contractions)}
