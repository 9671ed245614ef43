"""What a fold makes the forward save for the backward: never more bytes than the program as it was written would save.

A matmul that reads through a view keeps the view's source alive until its gradient is computed. Where the view copied a
slice, that source is a part of a larger tensor, all of which stays: a Llama's v, cut out of q, k and v, of which the
backward needs nothing else.
"""

from __future__ import annotations

from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Graph, View, is_backward
from thunder_gemm_ex.rules.layout import layout_of
from thunder_gemm_ex.rules.slices import is_slice


def saves_more(graph: Graph, view: View) -> bool:
    """Whether reading the source of `view` instead of its output would save more for the backward."""
    if not _copies(graph, view) or not _saved(graph, view.out.name):
        return False
    root = _root(graph, view.source)
    if root.numel <= view.out.numel or root.name in _held(graph):
        return False
    # Other copies of the same tensor go with this one: q, k and v together are what they were cut out of.
    return bool(root.numel * root.dtype.bytes > sum(x.numel * x.dtype.bytes for x in _saved_copies(graph, root)))


def _copies(graph: Graph, view: View) -> bool:
    return layout_of(graph, view.out).copies > layout_of(graph, view.source).copies


def _root(graph: Graph, proxy: TensorProxy) -> TensorProxy:
    """The tensor whose memory `proxy` shows, through views that do not copy and slices."""
    while (position := graph.makers.get(proxy.name)) is not None:
        view, bsym = graph.view_at(position), graph.bsyms[position]
        if view is not None and not _copies(graph, view):
            proxy = view.source
        elif bsym is not None and position not in graph.matmuls and is_slice(bsym):
            proxy = next(p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy))
        else:
            break
    return proxy


def _saved(graph: Graph, name: str) -> bool:
    """Whether the backward reads a forward tensor, directly or through views."""
    todo, seen = [name], set()
    while todo:
        for position in graph.live_users(todo.pop()):
            bsym = graph.bsyms[position]
            if position in seen or bsym is None:
                continue
            seen.add(position)
            if is_backward(bsym):
                return True
            if graph.view_at(position) is not None:
                todo += [out.name for out in bsym.flat_proxy_outs]
    return False


def _held(graph: Graph) -> set[str]:
    """Names of the tensors whose memory the backward reads in any case."""
    held: set[str] = set()
    for position, bsym in enumerate(graph.bsyms):
        if bsym is None or not is_backward(bsym):
            continue
        matmul = graph.matmuls.get(position)
        read = bsym.flat_proxy_args if matmul is None else matmul.reads()
        held.update(_root(graph, p).name for p in read if type(p) is TensorProxy)
    return held


def _saved_copies(graph: Graph, root: TensorProxy) -> list[TensorProxy]:
    """The tensors that views copy out of `root` and the backward reads."""
    views = filter(None, map(graph.view_at, range(len(graph.bsyms))))
    copying = [v for v in views if _copies(graph, v) and _root(graph, v.source).name == root.name]
    return [v.out for v in copying if _saved(graph, v.out.name)]
