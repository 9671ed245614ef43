"""Composing views with a contraction: the algebra behind every fold.

A view that only permutes, splits, joins, inserts, drops or broadcasts dimensions is a `View`: a chain of steps. Folding
it into an operand restates the contraction on the view's source, folding it into the result restates it on the view's
output. A step that cannot be stated in labels (an uneven split, a sum over a broadcast label) gives None: no fold.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from thunder_gemm_ex.spec.contraction import Atom, Contraction, Dim, Dims, atoms_of

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Permute:
    """out.shape[i] == source.shape[perm[i]]"""

    perm: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order under another shape; squeeze and unsqueeze are reshapes too."""

    source: Shape
    shape: Shape


@dataclasses.dataclass(frozen=True)
class Broadcast:
    """Dimension i of the source is dimension dims[i] of the output; the output's others, and sizes 1, are repeated."""

    source: Shape
    shape: Shape
    dims: tuple[int, ...]


Step = Permute | Reshape | Broadcast


def fold_operand(spec: Contraction, tensor: str, steps: Sequence[Step]) -> Contraction | None:
    """`spec` on the source of a view that gave its operand `tensor` ("a", "b" or "bias"), or None."""
    for step in reversed(steps):
        folded = _operand_step(spec, tensor, step)
        if folded is None:
            return None
        spec = folded
    return spec


def fold_result(spec: Contraction, steps: Sequence[Step]) -> Contraction | None:
    """The contraction that gives at once what the view `steps` makes of the output of `spec`, or None."""
    for step in steps:
        folded = _result_step(spec, step)
        if folded is None:
            return None
        spec = folded
    return spec


def _operand_step(spec: Contraction, tensor: str, step: Step) -> Contraction | None:
    dims: Dims = getattr(spec, tensor)
    if isinstance(step, Permute):
        source = [dims[step.perm.index(i)] for i in range(len(step.perm))]
        return _with(spec, tensor, tuple(source))
    if isinstance(step, Reshape):
        return _regroup(spec, tensor, step.source)
    return _unbroadcast(spec, tensor, step)


def _result_step(spec: Contraction, step: Step) -> Contraction | None:
    if isinstance(step, Permute):
        return dataclasses.replace(spec, out=tuple(spec.out[i] for i in step.perm))
    if isinstance(step, Reshape):
        return _regroup(spec, "out", step.shape)
    # A broadcast result would be written many times over; without a repeat it only inserts dimensions of size 1.
    if sorted(step.dims) != list(step.dims) or any(step.source[i] != step.shape[d] for i, d in enumerate(step.dims)):
        return None
    if any(size != 1 for d, size in enumerate(step.shape) if d not in step.dims):
        return None
    return _regroup(spec, "out", step.shape)


def _unbroadcast(spec: Contraction, tensor: str, step: Broadcast) -> Contraction | None:
    dims: Dims = getattr(spec, tensor)
    kept = {d for i, d in enumerate(step.dims) if step.source[i] == step.shape[d]}
    dropped = set(atoms_of(dim for d, dim in enumerate(dims) if d not in kept))
    if tensor != "bias":
        other = set(atoms_of(spec.b if tensor == "a" else spec.a))
        # Without the other operand nobody would carry the label, and a sum over repeats is a product by their number.
        if not dropped <= other or dropped & set(spec.k):
            return None
    source = tuple(dims[d] if d in kept else () for d in step.dims)
    return _with(spec, tensor, source)


def _regroup(spec: Contraction, tensor: str, shape: Shape) -> Contraction | None:
    """`spec` with the atoms of `tensor`, in their order, dealt out to dimensions of the given shape."""
    if 0 in shape:
        return None
    todo = list(reversed(atoms_of(getattr(spec, tensor))))
    dims: list[Dim] = []
    for size in shape:
        dim: list[Atom] = []
        while size > 1:
            if not todo:
                return None
            atom = todo.pop()
            have = spec.sizes[atom]
            if size % have:
                if have % size:
                    return None
                spec, outer, inner = _split(spec, atom, size)
                todo = [p for x in todo for p in ((inner, outer) if x == atom else (x,))]
                dims = [_replace(d, atom, (outer, inner)) for d in dims]
                todo.append(inner)
                atom, have = outer, size
            dim.append(atom)
            size //= have
        dims.append(tuple(dim))
    return None if todo else _with(spec, tensor, tuple(dims))


def _split(spec: Contraction, atom: Atom, outer_size: int) -> tuple[Contraction, Atom, Atom]:
    """Refine `atom`, everywhere it stands, into an outer atom of the given size and an inner one."""
    outer, inner = max(spec.sizes) + 1, max(spec.sizes) + 2
    sizes = {x: s for x, s in spec.sizes.items() if x != atom}
    sizes[outer], sizes[inner] = outer_size, spec.sizes[atom] // outer_size
    return _rewrite(spec, atom, (outer, inner), sizes), outer, inner


def _with(spec: Contraction, tensor: str, dims: Dims) -> Contraction:
    """`spec` with other labels of "a", "b", "out" or "bias"."""
    changed: dict[str, Any] = {tensor: dims}
    return dataclasses.replace(spec, **changed)


def _rewrite(spec: Contraction, atom: Atom, by: Dim, sizes: dict[Atom, int]) -> Contraction:
    def rewrite(dims: Dims) -> Dims:
        return tuple(_replace(dim, atom, by) for dim in dims)

    bias = None if spec.bias is None else rewrite(spec.bias)
    return Contraction(rewrite(spec.a), rewrite(spec.b), rewrite(spec.out), sizes, bias)


def _replace(dim: Dim, atom: Atom, by: Dim) -> Dim:
    return tuple(p for x in dim for p in (by if x == atom else (x,)))


def coalesce(spec: Contraction) -> Contraction:
    """Join atoms that stand side by side, in one dimension and the same order, in every tensor that has either.

    Splits that a later view undid disappear here, so that a spec prints as short as it can.
    """
    while (pair := _joinable(spec)) is not None:
        outer, inner = pair
        sizes = {x: s for x, s in spec.sizes.items() if x != inner}
        sizes[outer] = spec.sizes[outer] * spec.sizes[inner]
        spec = _rewrite(spec, inner, (), sizes)
    return spec


def _joinable(spec: Contraction) -> tuple[Atom, Atom] | None:
    tensors = [dims for _, dims in spec.tensors()]
    for outer, inner in _neighbours(tensors):
        if all(_side_by_side(dims, outer, inner) for dims in tensors):
            return outer, inner
    return None


def _neighbours(tensors: Iterable[Dims]) -> Iterable[tuple[Atom, Atom]]:
    for dims in tensors:
        for dim in dims:
            yield from itertools.pairwise(dim)


def _side_by_side(dims: Dims, outer: Atom, inner: Atom) -> bool:
    atoms = atoms_of(dims)
    if outer not in atoms and inner not in atoms:
        return True
    return any((outer, inner) in itertools.pairwise(dim) for dim in dims)
