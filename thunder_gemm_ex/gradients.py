"""The gradients of Thunder's matmul, linear and complex multiply where this executor is in use: right everywhere.

Thunder infers sizes that it cannot infer where one is 0, drops every dimension of size 1 of a vector's gradient, and
conjugates nothing. Elsewhere these are the same operations in the same order, so that every rule finds what it knows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
from thunder.core import dtypes, prims
from thunder.core.prims import PrimIDs, get_grad, put_grad
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.transforms import put_grads

from thunder_gemm_ex.graph import autocast

Number = int | float | complex
Rule = Callable[..., TensorProxy]


def matmul(a: TensorProxy, b: TensorProxy, /) -> TensorProxy:
    """dA = g bᴴ and dB = aᴴ g; a vector is a matrix of one row or column, and batches that it lacks are summed."""
    out = prims.matmul(a, b)
    grad = get_grad(out)
    if a.ndim == b.ndim == 1:
        put_grads((a, b), (ltorch.mul(grad, _conj(b)), ltorch.mul(grad, _conj(a))))
    elif b.ndim == 1:
        column = ltorch.unsqueeze(grad, -1)
        grad_a = ltorch.matmul(column, ltorch.unsqueeze(_conj(b), 0))
        grad_b = ltorch.squeeze(ltorch.matmul(_adjoint(a), column), -1)
        put_grads((a, b), (grad_a, _summed(grad_b)))
    elif a.ndim == 1:
        row = ltorch.unsqueeze(grad, -2)
        grad_a = ltorch.squeeze(ltorch.matmul(row, _adjoint(b)), -2)
        grad_b = ltorch.matmul(ltorch.unsqueeze(_conj(a), 1), row)
        put_grads((a, b), (_summed(grad_a), grad_b))
    else:
        put_grads((a, b), (ltorch.matmul(grad, _adjoint(b)), ltorch.matmul(_adjoint(a), grad)))
    return out


def linear(a: TensorProxy, w: TensorProxy, bias: TensorProxy | None) -> TensorProxy:
    """dA = g w* and dW = gᵀ a*, over all rows at once."""
    out = prims.linear(a, w, bias)
    grad = get_grad(out)
    flat_grad, flat_a = _rows(grad), _rows(a)
    grad_a = ltorch.reshape(ltorch.matmul(flat_grad, _conj(w)), tuple(a.shape))
    put_grads((a, w), (grad_a, ltorch.matmul(flat_grad.mT, _conj(flat_a))))
    if bias is not None:
        put_grads((bias,), (_summed(grad),))
    return out


def multiply(a: TensorProxy | Number, b: TensorProxy | Number) -> TensorProxy:
    """da = g b* and db = g a*; a product of complex matrices with K=1 is one of these."""
    out = prims.mul(a, b)
    grad = get_grad(out)
    for x, other in ((a, b), (b, a)):
        if isinstance(x, TensorProxy):
            put_grad(x, ltorch.mul(grad, _conj(other) if isinstance(other, TensorProxy) else other.conjugate()))
    return out


def has_rule(bsym: BoundSymbol) -> bool:
    """Whether the gradient of an operation is one of these: of a multiply only where it is complex."""
    if bsym.sym.id is PrimIDs.MUL:
        return dtypes.is_complex_dtype(bsym.output.dtype) and all(
            isinstance(x, (TensorProxy, complex)) for x in bsym.args
        )
    return bsym.sym.id in RULES


def _as_recorded(rule: Rule) -> Rule:
    """The rule where nothing is cast any more: what eager casts has been cast when the operation was recorded.

    A region around the call is still there when gradients are made, also for what stands in a disabled region inside it.
    """

    @functools.wraps(rule)
    def resting(*args: Any) -> TensorProxy:
        with autocast.resting():
            return rule(*args)

    return resting


RULES: dict[object, Rule] = {
    PrimIDs.MATMUL: _as_recorded(matmul),
    PrimIDs.LINEAR: _as_recorded(linear),
    PrimIDs.MUL: multiply,
}


def _conj(x: TensorProxy) -> TensorProxy:
    # Thunder gives its torch module functions like this one when it is imported.
    return ltorch.conj(x) if dtypes.is_complex_dtype(x.dtype) else x  # type: ignore[attr-defined]


def _adjoint(x: TensorProxy) -> TensorProxy:
    return _conj(x.mT)


def _summed(grad: TensorProxy) -> TensorProxy:
    """The gradient of a vector: `grad` summed over all dimensions but the last."""
    return ltorch.sum(grad, tuple(range(grad.ndim - 1))) if grad.ndim > 1 else grad


def _rows(x: TensorProxy) -> TensorProxy:
    """`x` as one matrix of all its rows."""
    # Where nothing is 0 Thunder infers the number, which may be a symbolic one.
    empty = any(type(size) is int and size == 0 for size in x._shape)
    return ltorch.reshape(x, (math.prod(x.shape[:-1]) if empty else -1, x.shape[-1]))
