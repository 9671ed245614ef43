"""What each ATen operation inside eager's einsum, tensordot and their kind is in Thunder's terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import thunder.torch as ltorch
import torch
from thunder.core import dtypes
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.front_door.eager import Unstated, to_copy
from thunder_gemm_ex.front_door.graded import recorded

_aten = torch.ops.aten
_HALF = (dtypes.float16, dtypes.bfloat16)


def matmul(input: TensorProxy, other: TensorProxy) -> TensorProxy:
    """torch.matmul. All rows of `input` as one matrix, said in numbers where Thunder could not infer them: beside a 0."""
    empty = any(type(size) is int and size == 0 for size in (*input._shape, *other._shape))
    if input.ndim < 3 or other.ndim != 2 or not empty:
        return ltorch.matmul(input, other)
    lead = tuple(input.shape[:-1])
    rows = ltorch.matmul(ltorch.reshape(input, (math.prod(lead), input.shape[-1])), other)
    return ltorch.reshape(rows, (*lead, other.shape[-1]))


def _same(a: TensorProxy, **kwargs: object) -> TensorProxy:
    return a


def _permute(a: TensorProxy, dims: Sequence[int]) -> TensorProxy:
    return ltorch.permute(a, tuple(dims))


def _transpose(a: TensorProxy, dim0: int, dim1: int) -> TensorProxy:
    return ltorch.transpose(a, dim0, dim1)


def _reshape(a: TensorProxy, shape: Sequence[int]) -> TensorProxy:
    return a if tuple(shape) == tuple(a.shape) else ltorch.reshape(a, tuple(shape))


def _expand(a: TensorProxy, shape: Sequence[int], **kwargs: object) -> TensorProxy:
    return a if tuple(shape) == tuple(a.shape) else ltorch.expand(a, tuple(shape))


def _mul(a: TensorProxy, b: TensorProxy) -> TensorProxy:
    """torch.mul. In a program with gradients Thunder converts 16-bit factors to float32 after it has expanded them, which
    gives an expanded factor strides that decide the product's; converted first, the other one decides, as in eager."""
    alike = not isinstance(a, TensorProxy) or not isinstance(b, TensorProxy) or tuple(a.shape) == tuple(b.shape)
    if alike or a.dtype != b.dtype or a.dtype not in _HALF or not recorded():
        return ltorch.mul(a, b)
    return ltorch.to(ltorch.mul(ltorch.to(a, torch.float32), ltorch.to(b, torch.float32)), a.dtype)


def _squeeze(a: TensorProxy, dim: int | Sequence[int] | None = None) -> TensorProxy:
    return ltorch.squeeze(a) if dim is None else ltorch.squeeze(a, dim if isinstance(dim, int) else tuple(dim))


def _sum(
    a: TensorProxy, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorProxy:
    if dtype is not None:
        raise Unstated
    return ltorch.sum(a, None if dim is None else tuple(dim), keepdim)


STEPS: dict[torch._ops.OpOverload, Callable[..., TensorProxy]] = {
    _aten.mm.default: ltorch.matmul,
    _aten.bmm.default: ltorch.matmul,
    _aten.mv.default: matmul,
    _aten.dot.default: matmul,
    _aten.mul.Tensor: _mul,
    _aten.sum.default: _sum,
    _aten.sum.dim_IntList: _sum,
    _aten.permute.default: _permute,
    _aten.transpose.int: _transpose,
    _aten.t.default: lambda a: a if a.ndim < 2 else ltorch.transpose(a, 0, 1),
    _aten.view.default: _reshape,
    _aten._unsafe_view.default: _reshape,
    _aten.reshape.default: _reshape,
    _aten.expand.default: _expand,
    _aten.unsqueeze.default: lambda a, dim: ltorch.unsqueeze(a, dim),
    _aten.squeeze.default: _squeeze,
    _aten.squeeze.dim: _squeeze,
    _aten.squeeze.dims: _squeeze,
    _aten._to_copy.default: to_copy,
    _aten.clone.default: _same,
    _aten.alias.default: _same,
}
