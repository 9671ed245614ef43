"""When a CPU loops over one batch label instead of copying operands, and the loop itself.

Batch labels that are no neighbours in memory (b and h of [b, s, h, d]) make one batched call only after both operands
were copied. A loop over the outer one needs no copy; each of its calls must be large enough to be worth its start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch

from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.contraction import Atom, Dims

# Multiply-adds, counted as two, of one call. Speed of the loop relative to copies in natural order, [b, s, h, d] operands,
# one thread, processor time; q @ k^T with alpha / weights @ v written to [b, s, h, d]: 25e6 in each call
# ([32, 128, 12, 64]) 1.11 / 1.05, 101e6 ([8, 256, 12, 64]) 1.04 / 1.03, 537e6 ([4, 512, 16, 64]) 1.02 / 1.02,
# 4.3e9 ([1, 2048, 8, 64]) 1.00 / 1.00, 17e6 ([2, 128, 8, 64]) 1.02 / 0.97, 4.2e6 ([16, 64, 8, 64]) 0.99 / 0.87,
# 1.0e6 ([4, 64, 4, 32]) 0.82 / 0.73, 0.26e6 ([8, 32, 4, 32]) 0.52 / 0.42.
LEAST_FLOPS = 1 << 24


def looped(out: torch.Tensor, step: Callable[..., object], *operands: torch.Tensor) -> torch.Tensor:
    """`step(*parts, out part)` for every index of the first dimension of the operands and `out`; returns `out`."""
    for parts in zip(*operands, out):
        step(*parts)
    return out


def label_to_loop(spec: Contraction, *, copied: int) -> Atom | None:
    """The label to loop over: outermost in the output, of both operands, whose loop spares copies that cost more.

    `copied`: elements that one batched call would have to copy.
    """
    if not copied or len(spec.batch) < 2 or not spec.out or len(spec.out[0]) != 1:
        return None
    label = spec.out[0][0]
    if label not in spec.batch:
        return None
    return label if spec.flops // spec.sizes[label] >= LEAST_FLOPS else None


def without(
    spec: Contraction, label: Atom, strides: Mapping[str, Sequence[int]]
) -> tuple[Contraction, dict[str, list[int]]]:
    """The contraction of one index of `label`, every other label a dimension, and the operands' strides there."""
    parts = {name: tuple((x,) for x in atoms_of(getattr(spec, name)) if x != label) for name in ("a", "b")}
    sizes = {x: s for x, s in spec.sizes.items() if x != label}
    part = dataclasses.replace(spec, out=spec.out[1:], sizes=sizes, **parts)
    return part, {name: _strides(spec, getattr(spec, name), strides[name], label) for name in ("a", "b")}


def _strides(spec: Contraction, dims: Dims, strides: Sequence[int], label: Atom) -> list[int]:
    found: list[int] = []
    for dim, step in zip(dims, strides):
        inner = []
        for atom in reversed(dim):
            if atom != label:
                inner.append(step)
            step *= spec.sizes[atom]
        found += reversed(inner)
    return found
