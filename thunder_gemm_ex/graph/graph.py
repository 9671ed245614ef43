"""The def-use index over a trace's bound symbols, and the few ways in which rules change it.

Built once for each pass. Rules change the graph (which operands a matmul reads, which tensor it makes, which operations
are gone); `emit` writes the result as a new trace. Positions are those of the trace; an operation that is put in has the
position behind which it comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import cast

from thunder.core import dtypes
from thunder.core.prims import PrimIDs
from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.pytree import tree_flatten
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, tracectx
from thunder.extend import FusionExecutor

from thunder_gemm_ex.graph.kinds import Add, Cast, Kind, Sum, View, read
from thunder_gemm_ex.graph.matmul import Matmul, is_backward
from thunder_gemm_ex.graph.writes import find_writes
from thunder_gemm_ex.spec.contraction import Dims


class Graph:
    """Def-use index over the top-level bound symbols of a trace."""

    def __init__(self, trace: TraceCtx, fusers: Sequence[FusionExecutor] = ()) -> None:
        """`fusers`: the executors that get the trace afterwards."""
        self.trace = trace
        self.fusers = tuple(fusers)
        # As they came; Thunder annotates the list with a base of what is in it.
        self.original = cast(Sequence[BoundSymbol], tuple(trace.bound_symbols))
        self.bsyms: list[BoundSymbol | None] = list(self.original)
        self.matmuls: dict[int, Matmul] = {}
        self.makers: dict[str, int] = {}
        self.users: dict[str, list[int]] = defaultdict(list)
        self.mutated, self.mutations = find_writes(self.original)
        self.returned: set[str] = set()
        # Positions of views that are to be torch's own, whatever a fuser would make of them.
        self.views_of_torch: set[int] = set()
        # Casts that rules put in: `emit` writes each before the operation at its position.
        self.casts: list[Cast] = []
        # Positions of `gemm` that somebody wrote and no engine computes with the numerics asked for.
        self.unpromised: set[int] = set()
        self._kinds: dict[int, Kind | None] = {}
        for position, bsym in enumerate(self.original):
            self._index(position, bsym)

    def _index(self, position: int, bsym: BoundSymbol) -> None:
        for name in dict.fromkeys(p.name for p in bsym.flat_proxy_args):
            self.users[name].append(position)
        for proxy in bsym.flat_proxy_outs:
            # A name made twice is an alias handed through (a shallow copy of itself): the first maker counts.
            self.makers.setdefault(proxy.name, position)
        if bsym.sym.id is PrimIDs.RETURN:
            self.returned.update(_forward_outputs(bsym))

    def bsym_at(self, position: int) -> BoundSymbol:
        """The operation at `position`, where one is known to be left."""
        bsym = self.bsyms[position]
        assert bsym is not None, f"nothing is left at {position}"
        return bsym

    def kind_at(self, position: int) -> Kind | None:
        """The operation at `position` as one that a matmul can take in, if it is and nothing of it is written to."""
        if position not in self._kinds:
            bsym = self.bsyms[position]
            kind = None if bsym is None or position in self.matmuls else read(position, bsym)
            if kind is not None and self.mutated & {kind.source.name, kind.out.name}:
                kind = None
            self._kinds[position] = kind
        return self._kinds[position]

    def view_at(self, position: int) -> View | None:
        """The operation at `position` as a view, if it is one and its source is never written to."""
        kind = self.kind_at(position)
        return kind if isinstance(kind, View) else None

    def maker(self, proxy: Proxy) -> Kind | None:
        """The operation that makes `proxy`, if a matmul can take it in."""
        position = self.makers.get(proxy.name)
        return None if position is None else self.kind_at(position)

    def view_making(self, proxy: Proxy) -> View | None:
        """The view whose output `proxy` is, if it is one."""
        kind = self.maker(proxy)
        return kind if isinstance(kind, View) else None

    def live_users(self, name: str) -> list[int]:
        """Positions that need the tensor: a view, cast or factor whose own output nobody needs any more does not."""
        return [p for p in dict.fromkeys(self.users.get(name, ())) if self._needed(p)]

    def _needed(self, position: int) -> bool:
        if self.bsyms[position] is None:
            return False
        kind = self.kind_at(position)
        if kind is None or isinstance(kind, (Add, Sum)):
            return True
        return kind.out.name in self.returned or bool(self.live_users(kind.out.name))

    def user_of_result(self, matmul: Matmul) -> Kind | None:
        """The one operation that needs the result, as one that the matmul can take in, in the same part of the trace."""
        name = matmul.out.name
        users = self.live_users(name)
        if len(users) != 1 or name in self.returned or name in self.mutated or users[0] in self.matmuls:
            return None
        bsym = self.bsym_at(users[0])
        if is_backward(bsym) != matmul.backward:
            return None
        kind = read(users[0], bsym, matmul.out)
        return None if kind is None or kind.out.name in self.mutated else kind

    def fused(self, position: int) -> bool:
        """Whether a fuser behind us would take the operation at `position` into a region."""
        return self.fuser_of(position) is not None

    def fuser_of(self, position: int) -> FusionExecutor | None:
        """The fuser behind us that would take the operation at `position` into a region."""
        bsym = self.bsyms[position]
        return None if bsym is None else next((fuser for fuser in self.fusers if fuser.can_fuse(bsym)), None)

    def fused_with_others(self, position: int, *, along: Collection[int] = ()) -> bool:
        """Whether a fuser would take the operation together with a neighbour: then it costs nothing there.

        A neighbour is what it reads from or is read by in the same part of the trace, itself neither matmul nor view;
        those that would go `along` with it are none.
        """
        if not self.fused(position):
            return False
        bsym = self.bsym_at(position)
        above = [self.makers[p.name] for p in bsym.flat_proxy_args if p.name in self.makers]
        below = [u for p in bsym.flat_proxy_outs for u in self.live_users(p.name)]
        return any(p not in along and self._joins(p, is_backward(bsym)) for p in (*above, *below))

    def _joins(self, position: int, backward: bool) -> bool:
        bsym = self.bsyms[position]
        beside = bsym is not None and position not in self.matmuls and is_backward(bsym) == backward
        return beside and self.view_at(position) is None and self.fused(position)

    def move_operand(self, matmul: Matmul, tensor: str, source: TensorProxy) -> None:
        """Let `matmul` read `source` where it read its operand `tensor`."""
        old = getattr(matmul, tensor)
        setattr(matmul, tensor, source)
        self._forget_use(matmul, old)
        self.note_use(matmul, source)

    def add_operand(self, matmul: Matmul, tensor: str, source: TensorProxy) -> None:
        """Let `matmul` read one more tensor."""
        setattr(matmul, tensor, source)
        self.note_use(matmul, source)

    def take_result(self, matmul: Matmul, kind: Kind, *, move: bool = False) -> None:
        """Let `matmul` make the output of `kind`, its only user, which disappears; with `move` it takes its place too."""
        self.bsyms[kind.position] = None
        self._kinds[kind.position] = None
        self.users[matmul.out.name] = []
        del self.makers[matmul.out.name]
        matmul.out = kind.out
        if move:
            self._move(matmul, kind.position)
        # Later folds look the tensor up by name: it must be the matmul that they find, not the vanished view.
        self.makers[kind.out.name] = matmul.position

    def new_proxy(self, like: TensorProxy, shape: tuple[int, ...], dtype: dtypes.dtype) -> TensorProxy:
        """A tensor that is not in the trace yet, on the device of `like`."""
        with tracectx(self.trace):
            return TensorProxy(like=like, shape=shape, dtype=dtype, requires_grad=False)

    def make_beside(self, matmul: Matmul, name: str, tensor: TensorProxy, users: Sequence[int] = ()) -> None:
        """Let `matmul` make one more tensor, which the operations at `users` read."""
        setattr(matmul, name, tensor)
        self.makers[tensor.name] = matmul.position
        self.users[tensor.name] = list(users)

    def take_sum(self, matmul: Matmul, found: Sum, dims: Dims) -> None:
        """Let `matmul` make the sum beside its result, of a tensor whose labels are `dims`; the operation disappears."""
        kept = tuple(
            () if d in found.dims else dim for d, dim in enumerate(dims) if found.keepdim or d not in found.dims
        )
        self.bsyms[found.position] = None
        self._kinds[found.position] = None
        self.make_beside(matmul, "bias_grad", found.out, self.users[found.out.name])
        matmul.spec = matmul.spec.with_bias(kept)
        matmul.folded.append("the bias gradient")

    def cast_at(self, cast: Cast, source: TensorProxy) -> TensorProxy:
        """`source` in the dtype of `cast`, from where `cast` stands; one cast serves all that read it later."""
        backward = is_backward(self.original[cast.position])
        for made in self.casts:
            same_part = is_backward(self.original[made.position]) == backward
            same = made.source.name == source.name and made.out.dtype == cast.out.dtype
            if same and same_part and made.position <= cast.position:
                return made.out
        with tracectx(self.trace):
            out = TensorProxy(like=source, dtype=cast.out.dtype)
        self.casts.append(Cast(cast.position, source, out))
        self.users[source.name].append(cast.position)
        return out

    def _move(self, matmul: Matmul, position: int) -> None:
        old = matmul.position
        del self.matmuls[old]
        self.bsyms[old], self.bsyms[position] = None, matmul.bsym
        matmul.position = position
        self.matmuls[position] = matmul
        for proxy in matmul.reads():
            self.users[proxy.name] = [position if p == old else p for p in self.users[proxy.name]]

    def _forget_use(self, matmul: Matmul, old: TensorProxy) -> None:
        if all(p.name != old.name for p in matmul.reads()):
            self.users[old.name] = [p for p in self.users[old.name] if p != matmul.position]

    def note_use(self, matmul: Matmul, source: TensorProxy) -> None:
        """Note that `matmul` reads `source`."""
        if matmul.position not in self.users[source.name]:
            self.users[source.name].append(matmul.position)


def _forward_outputs(bsym: BoundSymbol) -> set[str]:
    """Names that the user's own call returns: under autograd the joint trace returns gradients beside them."""
    value = bsym.args[0] if bsym.args else None
    if isinstance(value, dict) and "output" in value:
        value = value.get("fw_flat_out", value["output"])
        return {x.name for x in tree_flatten(value)[0] if isinstance(x, Proxy)}
    return {p.name for p in bsym.flat_proxy_args}
