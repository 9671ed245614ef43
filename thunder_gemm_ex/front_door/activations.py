"""Activations and softmax stay whole in a trace, their derivatives too: what a GEMM can compute must be there to be seen.

Thunder takes them apart where gradients are wanted, GELU's into some thirty operations, each of which writes a tensor as
large as the product beside it. With this executor in front each is one symbol forward and one backward, made of the same
operations: a fuser looks into it, and where none does, the derivative is ATen's own kernel. As in eager, those of ReLU and
softmax read the result, GELU's and SiLU's what went in.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
import torch
from thunder.core import dtypes
from thunder.core.compile_data import get_compile_data
from thunder.core.prims import get_grad, put_grad
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.extend import FusionExecutor, OperatorExecutor, get_always_executors
from thunder.torch import _torch_to_thunder_function_map

from thunder_gemm_ex.front_door.derivatives import DERIVATIVES
from thunder_gemm_ex.graph import SLOPES, is_tanh_gelu

# Thunder's symbol, of which torch.nn.functional.softmax is a call.
_softmax: Any = _torch_to_thunder_function_map[torch.softmax]


def keep_activations(executor: FusionExecutor) -> dict[str, Symbol]:
    """Register all activations with the executor. Returns, by the derivatives' ids, ATen's kernels as symbols."""
    kernels: dict[str, Symbol] = {}
    for name, derivative in DERIVATIVES.items():
        slope = Symbol(name=f"{name}_backward", meta=derivative.stated, id=SLOPES.get(name, f"gemm_ex.{name}_backward"))
        executor.register_supported(slope)
        # Thunder's annotation wants a symbol, its code takes what has a signature.
        like: Any = derivative.stated
        kernels[str(slope.id)] = executor.register_operator(f"{name}_backward_kernel", like=like, fn=derivative.kernel)
        RULES[name] = slope
    executor.register_supported(ltorch.relu, _is_plain_relu, grad_transform=_relu_rule)
    executor.register_supported(ltorch.gelu, _is_float_gelu, grad_transform=_gelu_rule)
    executor.register_supported(ltorch.silu, _is_plain_silu, grad_transform=_silu_rule)
    executor.register_supported(_softmax, _is_float_softmax, grad_transform=_softmax_rule)
    return kernels


# The derivative's symbol for each activation.
RULES: dict[str, Symbol] = {}


def _relu_rule(a: TensorProxy, inplace: bool = False) -> TensorProxy:
    out = ltorch.relu(a)
    put_grad(a, RULES["relu"](get_grad(out), out))
    return out


def _gelu_rule(a: TensorProxy, *, approximate: str = "none") -> TensorProxy:
    out = ltorch.gelu(a, approximate=approximate)
    put_grad(a, RULES["gelu" if is_tanh_gelu(approximate) else "exact_gelu"](get_grad(out), a))
    return out


def _silu_rule(a: TensorProxy, inplace: bool = False) -> TensorProxy:
    out = ltorch.silu(a)
    put_grad(a, RULES["silu"](get_grad(out), a))
    return out


def _softmax_rule(a: TensorProxy, dim: int, *, dtype: object = None) -> TensorProxy:
    out = _softmax(a, dim, dtype=dtype)
    grad = RULES["softmax"](get_grad(out), out, dim)
    # What `dtype` casts before the softmax has a gradient that is cast back.
    put_grad(a, grad if grad.dtype == a.dtype else ltorch.to(grad, a.dtype))
    return out


def _is_plain_relu(a: object, inplace: bool = False) -> bool:
    return not inplace and _is_ours(ltorch.relu, a)


def _is_plain_silu(a: object, inplace: bool = False) -> bool:
    return not inplace and _is_ours(ltorch.silu, a)


def _is_float_gelu(a: object, *, approximate: str = "none") -> bool:
    return _is_ours(ltorch.gelu, a)


def _is_float_softmax(a: object, dim: int, *, dtype: object = None) -> bool:
    return isinstance(dim, int) and _is_ours(_softmax, a)


def _is_ours(activation: Symbol, a: object) -> bool:
    """Whether nobody but torch's own executor would carry the activation out: others keep what they claim."""
    data = get_compile_data()
    others = () if data is None else [ex for ex in data.executors_list if ex not in get_always_executors()]
    theirs = any(isinstance(ex, OperatorExecutor) and activation.id in ex.implmap for ex in others)
    return type(a) is TensorProxy and dtypes.is_float_dtype(a.dtype) and not theirs
