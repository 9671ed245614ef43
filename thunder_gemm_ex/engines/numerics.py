"""How a product's sums may be rounded: torch's flags as they stand at the call, or a mode that overrules them.

"torch" follows torch. "strict" allows no TF32, no sums in 16 bits and no split k. "batch_invariant" takes one algorithm
for every number of rows, without split k, so that a row's bits do not depend on the rows beside it; precision is torch's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

MODES = ("torch", "strict", "batch_invariant")

# Bits of the flags that csrc/types.h names.
TF32, FULL_REDUCTION, NO_SPLIT_K, FP16_ACCUMULATE, DETERMINISTIC, BATCH_INVARIANT, FAST_ACCUMULATE = (
    1 << i for i in range(7)
)

_deterministic = torch._C._get_deterministic_algorithms
_old_tf32 = torch._C._get_cublas_allow_tf32
_new_precision = torch._C._get_fp32_precision_getter
_fp16_reductions = torch._C._get_cublas_allow_fp16_reduced_precision_reduction
_bf16_reductions = torch._C._get_cublas_allow_bf16_reduced_precision_reduction
_cpu_fp16_reductions = getattr(torch._C, "_get_cpu_allow_fp16_reduced_precision_reduction", lambda: False)
_fp16_accumulation = torch._C._get_cublas_allow_fp16_accumulation


def check_mode(mode: str) -> str:
    """`mode`, or ValueError with the modes there are."""
    if mode not in MODES:
        raise ValueError(f"numerics must be one of {', '.join(map(repr, MODES))}, was {mode!r}")
    return mode


def flags_reader(dtype: torch.dtype, mode: str = "torch") -> Callable[[], int]:
    """The function to call at every product of operands in `dtype`: the engine's flags as of then."""
    if check_mode(mode) == "strict":
        return lambda: FULL_REDUCTION | NO_SPLIT_K
    read = _READERS.get(dtype, _plain)
    return read if mode == "torch" else lambda: read() | BATCH_INVARIANT


def flags_from_torch(dtype: torch.dtype) -> int:
    """The engine's flags for a product in `dtype` as torch's own flags stand now."""
    return flags_reader(dtype)()


def wider(tensor: torch.Tensor) -> torch.dtype | None:
    """The dtype in which ATen keeps "strict" for products of such tensors; None where its own already does.

    As torch's flags stand now ATen may compute them with TF32 or in bfloat16, or keep partial sums in 16 bits; a type that
    no flag of those reaches does not. ATen's order of summation, and whether it splits k, is its own affair.
    """
    dtype = tensor.dtype
    if tensor.is_cuda:
        flags = _READERS.get(dtype, _plain)()
        reduced = flags & (TF32 | FP16_ACCUMULATE) or (dtype in _SIXTEEN_BITS and not flags & FULL_REDUCTION)
    elif dtype is torch.float32:
        reduced = _new_precision("mkldnn", "matmul") in ("tf32", "bf16")
    else:
        reduced = dtype is torch.float16 and _cpu_fp16_reductions()
    return _WIDER.get(dtype) if reduced else None


def _plain() -> int:
    return DETERMINISTIC if _deterministic() else 0


def _fp32() -> int:
    # On every call's path: few names, few branches.
    try:
        flags = TF32 if _old_tf32() else 0
    except RuntimeError:  # the new API was used and says something else: it is the one that counts
        flags = TF32 if _new_precision("cuda", "matmul") == "tf32" else 0
    return flags | DETERMINISTIC if _deterministic() else flags


def _fp16() -> int:
    sums = FP16_ACCUMULATE if _fp16_accumulation() else 0
    return _reductions(_fp16_reductions()) | sums | (DETERMINISTIC if _deterministic() else 0)


def _bf16() -> int:
    return _reductions(_bf16_reductions()) | (DETERMINISTIC if _deterministic() else 0)


def _reductions(allowed: bool | tuple[bool, bool]) -> int:
    # Newer torch answers with (16-bit partial sums, split-K at all), older with the first alone.
    if allowed is True:
        return 0
    partial, split_k = allowed if isinstance(allowed, tuple) else (allowed, True)
    return (0 if partial else FULL_REDUCTION) | (0 if split_k else NO_SPLIT_K)


_SIXTEEN_BITS = (torch.float16, torch.bfloat16)
# A wider float32 is float64: float32 itself is what a flag may reach.
_WIDER = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
_READERS = {torch.float32: _fp32, torch.float16: _fp16, torch.bfloat16: _bf16}
