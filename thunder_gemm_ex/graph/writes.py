"""What a trace writes to in place: every name under which the memory is known, and where it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunder.core.prims import PrimIDs
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.graph.kinds import View, read

_WRITES = {PrimIDs.COPY_, PrimIDs.COPY_WITH_SETITEM, "copy_"}
# Thunder gives tensors that share memory new names around each write to one of them.
_RENAMES = {PrimIDs.UPDATE_ALIASES, "update_aliases"}


def find_writes(bsyms: Sequence[BoundSymbol]) -> tuple[set[str], list[int]]:
    """(names of tensors whose memory is written to, or that are read by a write; positions of the writes)."""
    positions = [i for i, bsym in enumerate(bsyms) if _is(bsym, _WRITES)]
    if not positions:
        return set(), []
    names = {p.name for i in positions for p in bsyms[i].flat_proxy_args}
    shared = list(_shared(bsyms))
    known = -1
    while known != len(names):
        known = len(names)
        for group in shared:
            if not names.isdisjoint(group):
                names |= group
    return names, positions


def _shared(bsyms: Sequence[BoundSymbol]) -> Iterator[set[str]]:
    """Names that may mean the same memory: of a view and its source, and of all that a renaming takes together."""
    for position, bsym in enumerate(bsyms):
        if _is(bsym, _RENAMES):
            yield {p.name for p in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs)}
        else:
            kind = read(position, bsym)
            if isinstance(kind, View):
                yield {kind.source.name, kind.out.name}


def _is(bsym: BoundSymbol, ids: set[object]) -> bool:
    return bsym.sym.id in ids or any(s.sym.id in ids for s in bsym.subsymbols)
