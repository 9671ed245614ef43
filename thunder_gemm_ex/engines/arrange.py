"""The views of an ATen expression, as Python source: an operand by its labels, brought into the order that a call wants.

Beside the aten engine, which composes them with a product. A `.reshape` is a view wherever strides allow one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.contraction import Atom, Dims


def aligned(spec: Contraction, name: str, dims: Dims, order: Sequence[Atom]) -> str:
    """`name` with one dimension for each atom of `order`, of size 1 where it lacks that atom."""
    mine = [x for x in order if x in atoms_of(dims)]
    shape = tuple(spec.sizes[x] if x in mine else 1 for x in order)
    source = arranged(spec, name, dims, [(x,) for x in mine])
    return source if mine == list(order) else f"{source}.reshape({listed(shape)})"


def arranged(spec: Contraction, name: str, dims: Dims, groups: Sequence[Sequence[Atom]]) -> str:
    """`name` permuted and reshaped so that its dimensions are `groups`, each a joined run of atoms."""
    groups = [tuple(g) for g in groups]
    stored = atoms_of(dims)
    runs = sorted((g for g in groups if g), key=lambda g: stored.index(g[0]))
    if [x for g in runs for x in g] == list(stored):
        # Join first, permute after: one step fewer, and a copy (should the strides need one) keeps the stored order.
        by_memory = sorted(range(len(groups)), key=lambda i: stored.index(groups[i][0]) if groups[i] else -1)
        joined = [groups[i] for i in by_memory]
        return name + reshaped(spec, dims, joined) + permuted([by_memory.index(i) for i in range(len(groups))])
    order = [x for g in groups for x in g]
    single = tuple((x,) for x in stored)
    source = name + reshaped(spec, dims, single) + permuted([stored.index(x) for x in order])
    return source + reshaped(spec, tuple((x,) for x in order), groups)


def as_matrix(
    spec: Contraction, name: str, dims: Dims, lead: Sequence[Sequence[Atom]], rows: Sequence[Atom], cols: Sequence[Atom]
) -> str:
    """`name` as [*lead, rows, cols]; should that need a copy, one in which what is innermost in memory stays so.

    BLAS reads a transposed matrix as well as a plain one, while a copy that transposes runs across memory: q @ k.T of
    [4, 512, 16, 64] operands was 1.11 times as fast with k copied in its own order (two cores).
    """
    inner = atoms_of(dims)[-1:]
    if not inner or inner[0] not in rows:
        return arranged(spec, name, dims, [*lead, rows, cols])
    turned = arranged(spec, name, dims, [*lead, cols, rows])
    return f"{turned}.{'mT' if lead else 't()'}"


def reshaped(spec: Contraction, dims: Sequence[Sequence[Atom]], groups: Sequence[Sequence[Atom]]) -> str:
    """The step that regroups dimensions `dims` to `groups` of the same order, "" if they are those already."""
    if tuple(map(tuple, dims)) == tuple(map(tuple, groups)):
        return ""
    return f".reshape({listed([spec.extent(g) for g in groups])})"


def permuted(perm: Sequence[int]) -> str:
    """The step that permutes dimensions, "" for none."""
    if list(perm) == sorted(perm):
        return ""
    return ".t()" if list(perm) == [1, 0] else f".permute({listed(perm)})"


def listed(values: Sequence[int]) -> str:
    """Sizes as arguments of a call; no size at all is the shape of a scalar."""
    return ", ".join(map(str, values)) if values else "()"


def joins_in_memory(spec: Contraction, dims: Dims, strides: Sequence[int], groups: Sequence[Sequence[Atom]]) -> bool:
    """Whether every group of atoms is one dimension of the tensor as it lies in memory."""
    at: dict[Atom, int] = {}
    for dim, step in zip(dims, strides):
        for atom in reversed(dim):
            at[atom] = step
            step *= spec.sizes[atom]
    return all(at[x] == at[y] * spec.sizes[y] for g in groups for x, y in itertools.pairwise(g))
