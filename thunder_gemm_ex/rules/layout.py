"""What folding needs to know of strides before anything runs: propagated from bases through the views that remain.

A proxy has no strides. A tensor that no view makes is taken as contiguous; a permute or broadcast of it is strided, a
reshape is strided where the strides allow it and a copy where they do not.
"""

from __future__ import annotations

import dataclasses
import math

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Cast, Graph, Scale, View, is_backward
from thunder_gemm_ex.rules.joiners import JOINERS, hands_strides_on
from thunder_gemm_ex.spec import Broadcast, Contraction, Cost, Permute, Reshape, Step, cost
from thunder_gemm_ex.spec.cost import from_dims


@dataclasses.dataclass(frozen=True)
class Layout:
    """Assumed strides, in elements, and the number of elements that views copied to get there (0: no copy)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    copies: int = 0
    copied: int = 0


def layout_of(graph: Graph, proxy: TensorProxy) -> Layout:
    """The layout of a tensor as the trace now makes it."""
    kind = graph.maker(proxy)
    if isinstance(kind, View):
        return viewed(layout_of(graph, kind.source), kind)
    if isinstance(kind, (Cast, Scale)):
        # Computed element by element, in the order in which the source lies in memory.
        source = layout_of(graph, kind.source)
        return Layout(source.shape, source.strides) if 0 not in source.strides else packed(source.shape)
    return packed(tuple(int(s) for s in proxy.shape))


def viewed(layout: Layout, view: View) -> Layout:
    """The layout that a view gives, copies that it makes included."""
    for step in view.steps:
        layout = apply(layout, step)
    if view.copying == "clone" or (view.copying == "pack" and layout.strides != packed(layout.shape).strides):
        strides = packed(layout.shape).strides if view.copying == "pack" or 0 in layout.strides else layout.strides
        layout = Layout(layout.shape, strides, layout.copies + 1, layout.copied + math.prod(layout.shape))
    return layout


def packed(shape: tuple[int, ...], copies: int = 0, copied: int = 0) -> Layout:
    """A contiguous layout."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return Layout(shape, tuple(reversed(strides)), copies, copied)


def apply(layout: Layout, step: Step) -> Layout:
    """The layout that a view step gives."""
    shape, strides = layout.shape, layout.strides
    if isinstance(step, Permute):
        moved = [tuple(x[i] for i in step.perm) for x in (shape, strides)]
        return dataclasses.replace(layout, shape=moved[0], strides=moved[1])
    if isinstance(step, Broadcast):
        spread = [0] * len(step.shape)
        for i, d in enumerate(step.dims):
            spread[d] = strides[i] if step.source[i] == step.shape[d] else 0
        return dataclasses.replace(layout, shape=step.shape, strides=tuple(spread))
    assert isinstance(step, Reshape)
    found = reshaped_strides(shape, strides, step.shape)
    if found is not None:
        return dataclasses.replace(layout, shape=step.shape, strides=found)
    size = 1
    for s in step.shape:
        size *= s
    return packed(step.shape, layout.copies + 1, layout.copied + size)


def reshaped_strides(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides of a reshape that needs no copy, or None: torch's own rule (runs of mergeable dimensions)."""
    if 0 in shape:
        return packed(new).strides
    runs: list[list[int]] = []  # [elements, innermost stride], outermost run first
    for size, step in zip(shape, strides):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    found: list[int] = []
    left, step = runs.pop() if runs else (1, 1)
    for size in reversed(new):
        if size > 1 and left == 1:
            left, step = runs.pop()
        found.append(step)
        if left % size:
            return None
        left, step = left // size, step * size
    return tuple(reversed(found))


# Operations whose result never takes its strides from an operand.
_FRESH_STRIDES = {PrimIDs.EMBEDDING, "embedding"}


def strides_reach_output(graph: Graph, proxy: TensorProxy) -> bool:
    """Whether a forward output may take its strides from `proxy`, through views and pointwise operations."""
    todo, seen = [proxy.name], set()
    while todo:
        name = todo.pop()
        if name in graph.returned:
            return True
        for position in graph.users.get(name, ()):
            if position in seen or _makes_fresh_strides(graph, position, name):
                continue
            seen.add(position)
            todo.extend(p.name for p in graph.bsym_at(position).flat_proxy_outs)
    return False


def _makes_fresh_strides(graph: Graph, position: int, read: str) -> bool:
    bsym = graph.bsyms[position]
    if bsym is None or position in graph.matmuls or is_backward(bsym) or bsym.sym.id in _FRESH_STRIDES:
        return True
    if bsym.sym.id in JOINERS:
        layout = layout_of(
            graph, next(p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy) and p.name == read)
        )
        return not hands_strides_on(bsym, layout.shape, layout.strides)
    view = graph.view_at(position)
    return view is not None and layout_of(graph, view.out).copies > layout_of(graph, view.source).copies


def views_from(graph: Graph, view: View) -> list[View]:
    """`view`, and below it each view that is the only user of the one before."""
    views = [view]
    while True:
        out = views[-1].out.name
        users = graph.live_users(out)
        below = graph.view_at(users[0]) if len(users) == 1 and out not in graph.returned else None
        if below is None:
            return views
        views.append(below)


def leaves_strided(graph: Graph, view: View, layout: Layout) -> bool:
    """Whether `view`, of this layout, becomes through views alone a gradient that the backward returns with odd strides.

    Autograd copies such a gradient into its leaf's strides, whatever the GEMM would have cost that writes it so.
    """
    views = views_from(graph, view)
    for below in views[1:]:
        layout = viewed(layout, below)
    out = views[-1].out.name
    users = graph.live_users(out)
    if layout.copies or len(users) != 1 or out in graph.returned:
        return False
    return graph.bsym_at(users[0]).sym.id is PrimIDs.RETURN and layout.strides != packed(layout.shape).strides


def cost_of(graph: Graph, spec: Contraction, a: TensorProxy, b: TensorProxy, *, copies: int = 0) -> Cost:
    """The cost of a contraction on these operands, copies that the views above them make included."""
    return cost_with(spec, layout_of(graph, a), layout_of(graph, b), copies=copies)


def cost_with(spec: Contraction, a: Layout, b: Layout, *, copies: int = 0) -> Cost:
    """The cost of a contraction on operands with these layouts."""
    strides = [from_dims(spec, dims, layout.strides) for dims, layout in zip((spec.a, spec.b), (a, b))]
    return cost(spec, *strides, copies=copies + a.copies + b.copies)
