"""The shape of the mask that a ReLU leaves for its gradient: one bit a value, in whole rows of 128 bits (cublasLt.h)."""

from __future__ import annotations

from collections.abc import Sequence

MASK_BITS = 128


def mask_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The bytes of the mask of a tensor of this shape: its last dimension as bits, padded."""
    last = shape[-1] if shape else 1
    return (*shape[:-1], -(-last // MASK_BITS) * (MASK_BITS // 8))
