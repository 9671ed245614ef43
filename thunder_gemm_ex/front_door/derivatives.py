"""The derivatives of what stays whole: each as operations that a fuser looks into, and as ATen's own kernel.

`g` is the gradient of the output. 16-bit types compute in float32 and round once, as ATen's kernels do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import thunder.torch as ltorch
import torch
from thunder.core import dtypes
from thunder.core.proxies import TensorProxy

_aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Derivative:
    """`stated` for a trace and `kernel` for tensors: functions of g, the result or what went in, and constants."""

    stated: Callable[..., TensorProxy]
    kernel: Callable[..., torch.Tensor]


def relu(g: TensorProxy, out: TensorProxy) -> TensorProxy:
    """The gradient `g` where `out`, the result of relu, is positive or NaN; 0 elsewhere."""
    return ltorch.where(ltorch.le(out, 0), 0, g)


def tanh_gelu(g: TensorProxy, x: TensorProxy) -> TensorProxy:
    """`g` times the derivative of tanh-GELU at `x`."""
    dtype, (g, x) = g.dtype, _wide(g, x)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    square = x * x
    t = ltorch.tanh(scale * (x + cubic * (square * x)))
    slope = 0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * (scale * (1 + 3 * cubic * square)))
    return ltorch.to(g * slope, dtype)


def exact_gelu(g: TensorProxy, x: TensorProxy) -> TensorProxy:
    """`g` times the derivative of GELU at `x`: with Phi and phi of the normal distribution, Phi(x) + x phi(x)."""
    dtype, (g, x) = g.dtype, _wide(g, x)
    below = 0.5 * (1 + ltorch.erf(x * math.sqrt(0.5)))
    density = ltorch.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))
    return ltorch.to(g * (below + x * density), dtype)


def silu(g: TensorProxy, x: TensorProxy) -> TensorProxy:
    """`g` times the derivative of x sigmoid(x) at `x`."""
    dtype, (g, x) = g.dtype, _wide(g, x)
    s = ltorch.sigmoid(x)
    return ltorch.to(g * (s * (1 + x * (1 - s))), dtype)


def softmax(g: TensorProxy, out: TensorProxy, dim: int) -> TensorProxy:
    """The gradient of what went into the softmax over `dim` whose result is `out`: out (g - sum of g out over dim)."""
    dtype, (g, out) = g.dtype, _wide(g, out)
    return ltorch.to(out * (g - ltorch.sum(g * out, dim, keepdim=True)), dtype)


def _wide(*values: TensorProxy) -> list[TensorProxy]:
    narrow = values[0].dtype in (dtypes.bfloat16, dtypes.float16)
    return [ltorch.to(x, dtypes.float32) for x in values] if narrow else list(values)


def _softmax_kernel(g: torch.Tensor, out: torch.Tensor, dim: int) -> torch.Tensor:
    found: torch.Tensor = _aten._softmax_backward_data(g, out, dim, g.dtype)
    return found


DERIVATIVES = {
    "relu": Derivative(relu, lambda g, out: _aten.threshold_backward(g, out, 0)),
    "gelu": Derivative(tanh_gelu, lambda g, x: _aten.gelu_backward(g, x, approximate="tanh")),
    "exact_gelu": Derivative(exact_gelu, lambda g, x: _aten.gelu_backward(g, x)),
    "silu": Derivative(silu, lambda g, x: _aten.silu_backward(g, x)),
    "softmax": Derivative(softmax, _softmax_kernel),
}
