"""A trace as a def-use graph: who makes a tensor, who uses it, which operations are views and which are matmuls.

Built once for each pass. Rules change the graph (which operands a matmul reads, which tensor it makes, which operations
are gone); `emit` writes the result as a new trace. Positions are those of the trace, so order never has to be repaired:
folding a view into a matmul only moves the point where a tensor is made upwards, or a use from a view to its source.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

from thunder.core.prims import PrimIDs
from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.pytree import tree_flatten
from thunder.core.symbol import BoundSymbol, BoundSymbolTag
from thunder.core.trace import TraceCtx

from thunder_gemm_ex.spec import Broadcast, Contraction, Permute, Reshape, Step

_MUTATIONS = {PrimIDs.COPY_, PrimIDs.COPY_WITH_SETITEM, "copy_"}


@dataclasses.dataclass(eq=False)
class View:
    """An operation that only rearranges dimensions: `out` is `source` seen through `steps`."""

    position: int
    source: TensorProxy
    out: TensorProxy
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """What it does, for reports: "permute", "reshape", "expand", or several joined by "+"."""
        kinds = {Permute: "permute", Reshape: "reshape", Broadcast: "expand"}
        return "+".join(dict.fromkeys(kinds[type(step)] for step in self.steps)) or "copy"


@dataclasses.dataclass(eq=False)
class Matmul:
    """A matmul of the trace and what the rules made of it. `op` is the user's operation ("matmul", "linear", "bmm")."""

    position: int
    bsym: BoundSymbol
    op: str
    spec: Contraction
    a: TensorProxy
    b: TensorProxy
    out: TensorProxy
    bias: TensorProxy | None = None
    folded: list[str] = dataclasses.field(default_factory=list)
    # Why something beside it stays as it is, by where: an operand's name, "result" or "k".
    kept: dict[str, str] = dataclasses.field(default_factory=dict)
    bytes_saved: int = 0
    decision: str = "claimed"
    reason: str = ""

    @property
    def backward(self) -> bool:
        """Whether it belongs to the backward part of a joint trace."""
        return is_backward(self.bsym)

    def operands(self) -> Iterator[tuple[str, TensorProxy]]:
        """(name, proxy) of a, b and, if there is one, the bias."""
        yield "a", self.a
        yield "b", self.b
        if self.bias is not None:
            yield "bias", self.bias


class Graph:
    """Def-use index over the top-level bound symbols of a trace."""

    def __init__(self, trace: TraceCtx) -> None:
        self.trace = trace
        self.bsyms: list[BoundSymbol | None] = list(trace.bound_symbols)
        self.matmuls: dict[int, Matmul] = {}
        self.makers: dict[str, int] = {}
        self.users: dict[str, list[int]] = defaultdict(list)
        self.mutated: set[str] = set()
        self.returned: set[str] = set()
        self._views: dict[int, View | None] = {}
        for position, bsym in enumerate(self.bsyms):
            self._index(position, bsym)

    def _index(self, position: int, bsym: BoundSymbol) -> None:
        for proxy in {p.name: p for p in bsym.flat_proxy_args}.values():
            self.users[proxy.name].append(position)
        for proxy in bsym.flat_proxy_outs:
            # A name made twice is an alias handed through (a shallow copy of itself): the first maker counts.
            self.makers.setdefault(proxy.name, position)
        if bsym.sym.id in _MUTATIONS or any(s.sym.id in _MUTATIONS for s in bsym.subsymbols):
            self.mutated.update(p.name for p in bsym.flat_proxy_args)
        if bsym.sym.id is PrimIDs.RETURN:
            self.returned.update(_forward_outputs(bsym))

    def view_making(self, proxy: Proxy) -> View | None:
        """The view whose output `proxy` is, if it is one."""
        position = self.makers.get(proxy.name)
        return None if position is None else self.view_at(position)

    def view_at(self, position: int) -> View | None:
        """The operation at `position` as a view, if it is one and its source is never written to."""
        if position not in self._views:
            bsym = self.bsyms[position]
            view = None if bsym is None or position in self.matmuls else _as_view(position, bsym)
            if view is not None and self.mutated & {view.source.name, view.out.name}:
                view = None
            self._views[position] = view
        return self._views[position]

    def move_operand(self, matmul: Matmul, tensor: str, source: TensorProxy) -> None:
        """Let `matmul` read `source` where it read its operand `tensor`."""
        old = getattr(matmul, tensor)
        setattr(matmul, tensor, source)
        if all(p.name != old.name for _, p in matmul.operands()):
            self.users[old.name].remove(matmul.position)
        if matmul.position not in self.users[source.name]:
            self.users[source.name].append(matmul.position)

    def take_result(self, matmul: Matmul, view: View) -> None:
        """Let `matmul` make the output of `view`, its only user, which disappears."""
        self.bsyms[view.position] = None
        self._views[view.position] = None
        del self.makers[matmul.out.name]
        self.users.pop(matmul.out.name)
        matmul.out = view.out
        # Later folds look the tensor up by name: it must be the matmul that they find, not the vanished view.
        self.makers[view.out.name] = matmul.position


def is_backward(bsym: BoundSymbol) -> bool:
    """Whether a bound symbol of a joint trace belongs to the backward."""
    return BoundSymbolTag.BACKWARD in bsym.tags


def _forward_outputs(bsym: BoundSymbol) -> set[str]:
    """Names that the user's own call returns: under autograd the joint trace returns gradients beside them."""
    value = bsym.args[0] if bsym.args else None
    if isinstance(value, dict) and "output" in value:
        value = value.get("fw_flat_out", value["output"])
        return {x.name for x in tree_flatten(value)[0] if isinstance(x, Proxy)}
    return {p.name for p in bsym.flat_proxy_args}


def _as_view(position: int, bsym: BoundSymbol) -> View | None:
    outs, args = bsym.flat_proxy_outs, [p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)]
    if len(outs) != 1 or len(args) != 1 or type(outs[0]) is not TensorProxy or type(args[0]) is not TensorProxy:
        return None
    if outs[0].name == args[0].name or outs[0].dtype != args[0].dtype or not _static(args[0], outs[0]):
        return None
    steps = _steps(bsym, args[0], outs[0])
    return None if steps is None else View(position, args[0], outs[0], steps)


def _steps(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> tuple[Step, ...] | None:
    """What a bound symbol does to its one operand as view steps: known prims, or a chain of them inside a composite."""
    read = _PRIMS.get(bsym.sym.id)
    if read is not None:
        return read(bsym, source, out)
    if not bsym.subsymbols or not all(len(s.flat_proxy_outs) == 1 for s in bsym.subsymbols):
        return None
    steps, current = [], source
    for inner in bsym.subsymbols:
        if [p.name for p in inner.flat_proxy_args] != [current.name]:
            return None
        inner_out = inner.flat_proxy_outs[0]
        found = None if type(inner_out) is not TensorProxy else _steps(inner, current, inner_out)
        if found is None:
            return None
        steps += found
        current = inner_out
    return tuple(steps) if current.name == out.name else None


def _permute(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> tuple[Step, ...]:
    return (Permute(tuple(int(i) for i in bsym.args[1])),)


def _reshape(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> tuple[Step, ...]:
    return (Reshape(_shape(source), _shape(out)),)


def _broadcast(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> tuple[Step, ...]:
    return (Broadcast(_shape(source), _shape(out), tuple(int(i) for i in bsym.args[2])),)


def _identity(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> tuple[Step, ...] | None:
    return () if source.dtype == out.dtype and source.device == out.device else None


# Composites and torch's claimed operations carry these prims as subsymbols; only what has none is listed beside them.
_PRIMS = {
    PrimIDs.TRANSPOSE: _permute,
    PrimIDs.RESHAPE: _reshape,
    PrimIDs.SQUEEZE: _reshape,
    PrimIDs.BROADCAST_IN_DIM: _broadcast,
    PrimIDs.SHALLOW_COPY: _identity,
    "torch_prims_reshape_impl": _reshape,
    "shallow_copy": _identity,
}


def _static(*proxies: TensorProxy) -> bool:
    return all(type(size) is int for p in proxies for size in p._shape)


def _shape(proxy: TensorProxy) -> tuple[int, ...]:
    return tuple(int(size) for size in proxy._shape)


def shapes(proxies: Sequence[TensorProxy]) -> list[tuple[int, ...]] | None:
    """The static shapes of tensors, or None where one of them has a size that is only known when running."""
    return [_shape(p) for p in proxies] if _static(*proxies) else None
