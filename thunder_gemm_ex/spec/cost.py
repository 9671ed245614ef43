"""What a contraction costs to run, before anything is run: the rule that decides whether a view is folded.

The strides of every atom in every tensor are known or assumed (a base is taken as contiguous). Atoms of one kind that
are stride-compatible in all their tensors merge into one label; what is left says how many GEMM calls the contraction
falls apart into. A fold is worth it only where this cost does not grow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from thunder_gemm_ex.spec.contraction import Atom, Contraction, Dim, Dims

Strides = Mapping[Atom, int]


@dataclasses.dataclass(frozen=True, order=True)
class Cost:
    """Compared field by field, in this order.

    split_k: summed labels beyond the first that will not merge: each needs a copy or rounds partial sums.
    small: matrix dimensions that a split into batches leaves below TILE, where the hardware's tiles stay partly empty.
    calls: GEMM calls, all labels that neither the matrix nor the one strided batch can take looped over.
    copies: operands to be copied because no matrix dimension of theirs has stride 1, and copies that views make.
    batches: 1 if a strided-batched call is needed where a plain GEMM has none.
    """

    split_k: int
    small: int
    calls: int
    copies: int
    batches: int

    def __str__(self) -> str:
        parts = [
            (self.split_k, "summed label(s) apart"),
            (self.small, "dimension(s) cut small"),
            (self.copies, "cop(ies)"),
        ]
        said = [f"{n} {what}" for n, what in parts if n]
        return ", ".join([f"{self.calls} call(s)", *said, *(["batched"] if self.batches else [])])


# Rows or columns below which a GEMM loses speed by being cut: cuBLASLt's and oneDNN's common tiles have 64 or 128 of them.
TILE = 64


def contiguous(spec: Contraction, dims: Dims) -> dict[Atom, int]:
    """The stride of each atom, in elements, in a contiguous tensor with these dimensions."""
    strides, step = {}, 1
    for dim in reversed(dims):
        for atom in reversed(dim):
            strides[atom] = step
            step *= spec.sizes[atom]
    return strides


def from_dims(spec: Contraction, dims: Dims, strides: Sequence[int]) -> dict[Atom, int]:
    """The stride of each atom in a tensor whose dimensions have these strides."""
    found = {}
    for dim, step in zip(dims, strides):
        for atom in reversed(dim):
            found[atom] = step
            step *= spec.sizes[atom]
    return found


def merge(spec: Contraction, atoms: Sequence[Atom], tensors: Sequence[Strides]) -> list[Dim]:
    """Groups of `atoms` that act as one label in all `tensors`: an outer stride is the inner's times its size."""
    groups: list[Dim] = [(x,) for x in atoms]
    while (pair := _mergeable(spec, groups, tensors)) is not None:
        outer, inner = pair
        groups = [outer + inner if g == outer else g for g in groups if g != inner]
    return groups


def _mergeable(spec: Contraction, groups: Sequence[Dim], tensors: Sequence[Strides]) -> tuple[Dim, Dim] | None:
    for outer in groups:
        for inner in groups:
            if outer is inner:
                continue
            size = spec.extent(inner)
            have = [t for t in tensors if outer[-1] in t or inner[-1] in t]
            if all(outer[-1] in t and inner[-1] in t and t[outer[-1]] == t[inner[-1]] * size for t in have):
                return outer, inner
    return None


def cost(spec: Contraction, a: Strides | None = None, b: Strides | None = None, *, copies: int = 0) -> Cost:
    """The cost of `spec` on operands with the strides `a` and `b` (default: contiguous) into a contiguous output."""
    a = contiguous(spec, spec.a) if a is None else a
    b = contiguous(spec, spec.b) if b is None else b
    out = contiguous(spec, spec.out)
    k, batch = merge(spec, spec.k, (a, b)), merge(spec, spec.batch, (a, b, out))
    m, n = merge(spec, spec.m, (a, out)), merge(spec, spec.n, (b, out))
    matrix = [max(groups, key=spec.extent, default=()) for groups in (m, n, k)]
    small = sum(spec.extent(kept) < min(TILE, spec.extent(all_)) for kept, all_ in zip(matrix, (spec.m, spec.n)))
    left = sorted(spec.extent(g) for g in (*batch, *m, *n) if g not in matrix)
    calls = 1
    for size in left[:-1]:
        calls *= size
    # A copy is needed where the elements that lie side by side in memory belong to a label outside the matrix.
    copies += sum(not _unit_stride(t, matrix) for t in (a, b, out))
    return Cost(max(len(k) - 1, 0), small, calls, copies, min(len(left), 1))


def _unit_stride(strides: Strides, matrix: Sequence[tuple[Atom, ...]]) -> bool:
    inner = [g[-1] for g in matrix if g]
    here = [strides[x] for x in inner if x in strides]
    return not here or min(here) == 1
