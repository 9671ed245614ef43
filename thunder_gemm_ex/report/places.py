"""Where a matmul stands in the user's source: through gradients, and through the graphs that Dynamo writes."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Sequence

import torch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.rules.find import Declined

# The name under which torch.fx keeps the source of a graph that it has written.
_WRITTEN = "<eval_with_key>"
_TORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def places(graph: Graph, items: Sequence[Matmul | Declined]) -> dict[int, str]:
    """By position. A gradient has no line of its own: it gets that of its forward matmul."""
    forward: dict[str, Matmul] = {}
    for item in items:
        if isinstance(item, Matmul) and not item.backward:
            forward |= {_base(graph, p).name: item for p in (item.a, item.b)}
    found = {}
    for item in items:
        place = _place(item.bsym)
        if not place and isinstance(item, Matmul):
            bases = [_base(graph, p).name for p in (item.b, item.a)]
            owner = next((forward[name] for name in bases if name in forward), None)
            place = "" if owner is None else _place(owner.bsym)
        found[item.position] = place
    return found


def _base(graph: Graph, proxy: TensorProxy) -> TensorProxy:
    """The tensor that `proxy` is a view of: a gradient may read it otherwise than the forward does."""
    while (view := graph.view_making(proxy)) is not None:
        proxy = view.source
    return proxy


def _place(bsym: BoundSymbol) -> str:
    line = None if bsym.source_positions is None else bsym.source_positions.lineno
    return "" if bsym.source_filename is None or line is None else f"{bsym.source_filename}:{line}"


def in_users_file(where: str, graphs: Sequence[torch.nn.Module]) -> str:
    """`where` in what the user wrote, when it is a line of a graph that Dynamo wrote, one of `graphs`; else unchanged."""
    file, _, line = where.rpartition(":")
    if not file.startswith(_WRITTEN):
        return where
    name = linecache.getline(file, int(line)).partition("=")[0].partition(":")[0].strip()
    traces = (node.stack_trace for node in _nodes(graphs) if node.name == name and node.stack_trace)
    frames = _FRAME.findall(next(traces, ""))
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)] or frames
    return ":".join(users[-1]) if users else where


def _nodes(graphs: Sequence[torch.nn.Module]) -> Iterable[torch.fx.Node]:
    modules = (m for graph in graphs for m in graph.modules() if isinstance(m, torch.fx.GraphModule))
    return (node for module in modules for node in module.graph.nodes)
