"""Activations stay whole in a trace, and so do their derivatives: what a GEMM can compute must be there to be seen.

Thunder takes relu and tanh-GELU apart where gradients are wanted, GELU's into some thirty operations. With this executor
in front each is one symbol forward and one backward, made of the same operations: a fuser looks into it, and where none
does, the derivative is ATen's own kernel. As in eager, ReLU's derivative reads the result and GELU's what went in.
"""

from __future__ import annotations

import math
from typing import Any

import thunder.torch as ltorch
import torch
from thunder.core import dtypes
from thunder.core.compile_data import get_compile_data
from thunder.core.prims import get_grad, put_grad
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.extend import FusionExecutor, OperatorExecutor, get_always_executors

from thunder_gemm_ex.graph import SLOPES, is_tanh_gelu


def relu_backward(g: TensorProxy, out: TensorProxy) -> TensorProxy:
    """The gradient `g` where `out`, the result of relu, is positive or NaN; 0 elsewhere."""
    return ltorch.where(ltorch.le(out, 0), 0, g)


def gelu_backward(g: TensorProxy, x: TensorProxy) -> TensorProxy:
    """`g` times the derivative of tanh-GELU at `x`; 16-bit types compute in float32 and round once, as ATen does."""
    dtype = g.dtype
    if dtype in (dtypes.bfloat16, dtypes.float16):
        g, x = ltorch.to(g, dtypes.float32), ltorch.to(x, dtypes.float32)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    square = x * x
    t = ltorch.tanh(scale * (x + cubic * (square * x)))
    slope = 0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * (scale * (1 + 3 * cubic * square)))
    return ltorch.to(g * slope, dtype)


def _relu_kernel(g: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.threshold_backward(g, out, 0)


def _gelu_kernel(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.gelu_backward(g, x, approximate="tanh")


def keep_activations(executor: FusionExecutor) -> dict[str, Symbol]:
    """Register both activations with the executor. Returns, by the derivatives' ids, ATen's kernels as symbols."""
    kernels: dict[str, Symbol] = {}
    for name, stated, kernel in (("relu", relu_backward, _relu_kernel), ("gelu", gelu_backward, _gelu_kernel)):
        slope = Symbol(name=f"{name}_backward", meta=stated, id=SLOPES[name])
        executor.register_supported(slope)
        # Thunder's annotation wants a symbol, its code takes what has a signature.
        like: Any = stated
        kernels[SLOPES[name]] = executor.register_operator(f"{name}_backward_kernel", like=like, fn=kernel)
        RULES[name] = slope
    executor.register_supported(ltorch.relu, _is_plain_relu, grad_transform=_relu_rule)
    executor.register_supported(ltorch.gelu, _is_float_gelu, grad_transform=_gelu_rule)
    return kernels


# The derivative's symbol for each activation.
RULES: dict[str, Symbol] = {}


def _relu_rule(a: TensorProxy, inplace: bool = False) -> TensorProxy:
    out = ltorch.relu(a)
    put_grad(a, RULES["relu"](get_grad(out), out))
    return out


def _gelu_rule(a: TensorProxy, *, approximate: str = "none") -> TensorProxy:
    out = ltorch.gelu(a, approximate=approximate)
    put_grad(a, RULES["gelu"](get_grad(out), a))
    return out


def _is_plain_relu(a: object, inplace: bool = False) -> bool:
    return not inplace and _is_ours(ltorch.relu, a)


def _is_float_gelu(a: object, *, approximate: str = "none") -> bool:
    return is_tanh_gelu(approximate) and _is_ours(ltorch.gelu, a)


def _is_ours(activation: Symbol, a: object) -> bool:
    """Whether nobody but torch's own executor would carry the activation out: others keep what they claim."""
    data = get_compile_data()
    others = () if data is None else [ex for ex in data.executors_list if ex not in get_always_executors()]
    theirs = any(isinstance(ex, OperatorExecutor) and activation.id in ex.implmap for ex in others)
    return type(a) is TensorProxy and dtypes.is_float_dtype(a.dtype) and not theirs
