"""Operations of one kernel in eager, stated as matmul, bias and factor; each raises Unstated for what it cannot state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import thunder.torch as ltorch
from thunder.core import dtypes
from thunder.core.proxies import NumberProxy, TensorProxy

from thunder_gemm_ex.front_door.aten import matmul
from thunder_gemm_ex.front_door.eager import Unstated
from thunder_gemm_ex.front_door.graded import graded


def need(condition: bool) -> None:
    """Unstated unless the condition holds: eager's error, or Thunder's own way, comes instead."""
    if not condition:
        raise Unstated


def linear(input: TensorProxy, weight: TensorProxy, bias: TensorProxy | None = None) -> TensorProxy:
    """input @ weight.T + bias; eager also takes a weight that is a vector, which Thunder does not."""
    if isinstance(weight, TensorProxy) and weight.ndim == 1:
        need(bias is None and input.ndim > 0)
        return matmul(input, weight)
    return ltorch.linear(input, weight, bias)


def mm(input: TensorProxy, mat2: TensorProxy) -> TensorProxy:
    """[m, k] @ [k, n]"""
    need(input.ndim == 2 and mat2.ndim == 2 and not _complex(input))
    return ltorch.matmul(input, mat2)


def bmm(input: TensorProxy, mat2: TensorProxy) -> TensorProxy:
    """[b, m, k] @ [b, k, n]: unlike matmul, bmm broadcasts nothing."""
    need(input.ndim == 3 and mat2.ndim == 3 and input.shape[0] == mat2.shape[0])
    return ltorch.bmm(input, mat2)


def mv(input: TensorProxy, vec: TensorProxy) -> TensorProxy:
    """[m, k] @ [k]"""
    need(input.ndim == 2 and vec.ndim == 1 and not _complex(input))
    return matmul(input, vec)


def dot(input: TensorProxy, tensor: TensorProxy) -> TensorProxy:
    """[k] @ [k]"""
    need(input.ndim == 1 and tensor.ndim == 1 and input.shape == tensor.shape and not _complex(input))
    return matmul(input, tensor)


def outer(input: TensorProxy, vec2: TensorProxy) -> TensorProxy:
    """[m, 1] @ [1, n]; where nothing may be summed in a lower precision it is a multiply, as in eager."""
    need(input.ndim == 1 and vec2.ndim == 1)
    return ltorch.mul(ltorch.unsqueeze(input, 1), ltorch.unsqueeze(vec2, 0))


def addmm(
    input: TensorProxy, mat1: TensorProxy, mat2: TensorProxy, *, beta: float = 1, alpha: float = 1
) -> TensorProxy:
    """beta * input + alpha * mat1 @ mat2"""
    return _with_terms(lambda: mm(mat1, mat2), mat1.shape[-1], input, beta, alpha)


def addmv(input: TensorProxy, mat: TensorProxy, vec: TensorProxy, *, beta: float = 1, alpha: float = 1) -> TensorProxy:
    """beta * input + alpha * mat @ vec"""
    return _with_terms(lambda: mv(mat, vec), mat.shape[-1], input, beta, alpha)


def baddbmm(
    input: TensorProxy, batch1: TensorProxy, batch2: TensorProxy, *, beta: float = 1, alpha: float = 1
) -> TensorProxy:
    """beta * input + alpha * batch1 @ batch2; of integers eager's baddbmm, and it alone, cuts the factors to integers."""
    need(not _complex(batch1))
    if not dtypes.is_float_dtype(batch1.dtype) and all(
        type(x) in (int, float) and math.isfinite(x) for x in (beta, alpha)
    ):
        # Where nothing is summed it multiplies the input by the factor as it is, and refuses.
        need(batch1.shape[-1] != 0 or type(beta) is int or beta == 0)
        beta, alpha = int(beta), int(alpha)
    # Thunder's own gradient scales the product too, and does not ignore what is scaled by 0.
    scales = graded(input, batch1, batch2)
    return _with_terms(lambda: bmm(batch1, batch2), batch1.shape[-1], input, beta, alpha, any_alpha=scales)


def addbmm(
    input: TensorProxy, batch1: TensorProxy, batch2: TensorProxy, *, beta: float = 1, alpha: float = 1
) -> TensorProxy:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2"""
    need(not _complex(batch1) and dtypes.is_float_dtype(batch1.dtype))
    terms = batch1.shape[0] * batch1.shape[-1]
    return _with_terms(lambda: ltorch.sum(bmm(batch1, batch2), 0), terms, input, beta, alpha)


def bilinear(
    input1: TensorProxy, input2: TensorProxy, weight: TensorProxy, bias: TensorProxy | None = None
) -> TensorProxy:
    """out[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j], plus bias[o]."""
    need(weight.ndim == 3 and input1.ndim == input2.ndim >= 1 and input1.shape[:-1] == input2.shape[:-1])
    need(input1.shape[-1] == weight.shape[1] and input2.shape[-1] == weight.shape[2] and not _complex(weight))
    need(bias is None or tuple(bias.shape) == (weight.shape[0],))
    need(len({x.dtype for x in (input1, input2, weight, bias) if x is not None}) == 1)
    lead, (o, i, j) = tuple(input1.shape[:-1]), weight.shape
    x, y = (ltorch.reshape(t, (math.prod(lead), t.shape[-1])) for t in (input1, input2))
    # Of the two ways the one with the smaller tensor in between; both are GEMMs over all rows.
    if i <= o:
        pairs = ltorch.reshape(ltorch.mul(ltorch.unsqueeze(x, 2), ltorch.unsqueeze(y, 1)), (math.prod(lead), i * j))
        out = ltorch.matmul(pairs, ltorch.transpose(ltorch.reshape(weight, (o, i * j)), 0, 1))
    else:
        by_row = ltorch.matmul(x, ltorch.reshape(ltorch.permute(weight, (1, 0, 2)), (i, o * j)))
        by_row = ltorch.reshape(by_row, (math.prod(lead), o, j))
        out = ltorch.squeeze(ltorch.matmul(by_row, ltorch.unsqueeze(y, 2)), 2)
    out = ltorch.reshape(out, (*lead, o))
    return out if bias is None else ltorch.add(out, bias)


def _with_terms(
    multiply: Callable[[], TensorProxy],
    summed: int,
    input: TensorProxy,
    beta: float,
    alpha: float,
    any_alpha: bool = False,
) -> TensorProxy:
    """beta * input + alpha * the product, of `summed` terms each. What is scaled by 0 or sums nothing is ignored."""
    for value in (beta, alpha):
        need(isinstance(value, (int, float)) and not isinstance(value, (bool, NumberProxy)))
    product = multiply()
    need(isinstance(input, TensorProxy))
    # Eager scales integers by integers alone.
    need(dtypes.is_float_dtype(product.dtype) or (type(beta) is int and type(alpha) is int))
    need(input.ndim <= product.ndim and _broadcasts(input.shape, product.shape))
    need(input.dtype == product.dtype)
    ignored = alpha == 0 or (type(summed) is int and summed == 0)
    # Inside a GEMM infinity or NaN meets the terms of the sum one by one: that is torch's own affair.
    need(ignored or any_alpha or math.isfinite(alpha))
    if ignored:
        product = _nothing_of(product)
    elif alpha != 1:
        product = ltorch.mul(product, alpha)
    if beta == 0:
        return product if not graded(input) else ltorch.add(product, _nothing_of(input))
    return ltorch.add(product, input if beta == 1 else ltorch.mul(input, beta))


def _nothing_of(x: TensorProxy) -> TensorProxy:
    """Zeros that have a gradient of zeros for `x`, whatever stands in it: what eager gives for a term of factor 0."""
    never = ltorch.full(tuple(x.shape), False, dtype=dtypes.bool8, device=x.device)
    return ltorch.where(never, x, 0.0 if dtypes.is_float_dtype(x.dtype) else 0)


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    return all(x in (1, y) for x, y in zip(reversed(shape), reversed(to)))


def _complex(x: TensorProxy) -> bool:
    return dtypes.is_complex_dtype(x.dtype)
