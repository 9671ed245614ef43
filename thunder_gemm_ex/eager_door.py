"""`gx.gemm` inside a program that Thunder compiles: the trace gets the symbol `gemm`, its terms as ltorch operations.

Called once by the executor, which owns the symbol. Gradients are the symbol again, by the same label algebra as eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
from thunder.core import dtypes
from thunder.core.compile_data import get_compile_data
from thunder.core.jit_ext import record_source_loc_in_symbol_header
from thunder.core.prims import get_grad, put_grad
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.core.transforms import register_grad
from thunder.extend import Executor
from thunder.transforms.autocast import maybe_downcast_to, register_autocast_rule

from thunder_gemm_ex.eager import gemm as eager_gemm
from thunder_gemm_ex.operator.checks import ACTIVATIONS, check_options
from thunder_gemm_ex.operator.labels import names_of, pattern_of
from thunder_gemm_ex.operator.library import gemm as dispatcher_gemm
from thunder_gemm_ex.operator.sizes import Resolved, gradient_text, resolve, shape_of
from thunder_gemm_ex.spec import SpecError


def open_eager_door(executor: Executor, symbol: Symbol) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Let programs compiled with `executor` call `gx.gemm` and `torch.ops.thunder_gemm_ex.gemm`, which become `symbol`.

    Returns what each of these functions is recorded as, for ThunderFX's splitter, which has to know it too.
    """
    enter = _entry(symbol)
    recorded = record_source_loc_in_symbol_header(enter)
    functions = (eager_gemm, dispatcher_gemm.overloadpacket, dispatcher_gemm)
    for function in functions:
        executor._lookasides[function] = recorded
    register_grad(symbol.id, _gradient(symbol))
    register_autocast_rule(symbol.id)(_autocast(symbol))
    return dict.fromkeys(functions, enter)


def _entry(symbol: Symbol) -> Callable[..., TensorProxy]:
    # The eager function's keywords are positional in the operator's schema, in this order.
    def gemm(
        a: TensorProxy,
        b: TensorProxy,
        spec: str = "m k, k n -> m n",
        bias: TensorProxy | None = None,
        activation: str | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: TensorProxy | None = None,
        *,
        out: object = None,
    ) -> TensorProxy:
        if out is not None:
            raise ValueError("out is a tensor, and inside a compiled program it must be None: use the result")
        for name, value in (("a", a), ("b", b), ("bias", bias), ("c", c)):
            if type(value) is not TensorProxy and (value is not None or name in ("a", "b")):
                # A DTensor's proxy is a TensorProxy too: its product would not know its shards.
                plain = "plain " if isinstance(value, TensorProxy) else ""
                raise TypeError(f"{name} must be a {plain}torch.Tensor, was {type(value).__name__}")
        check_options(activation, alpha, beta, c)
        fitted = resolve(spec, _shape("a", a), _shape("b", b), None if bias is None else _shape("bias", bias))
        result = symbol(*_arguments(a, b, fitted.text, bias, alpha))
        if c is not None and beta != 0:
            result = _added(result, c, beta)
        return _activated(result, activation)

    return gemm


def _shape(name: str, tensor: TensorProxy) -> tuple[int, ...]:
    if any(type(size) is not int for size in tensor._shape):
        raise SpecError(f"{name} has a symbolic size, and inside a Thunder trace a spec needs static ones")
    return tuple(tensor._shape)


def _arguments(
    a: TensorProxy, b: TensorProxy, text: str, bias: TensorProxy | None = None, alpha: float = 1, beta: float = 1
) -> tuple[Any, ...]:
    # What is at its default is left out, as a trace prints it.
    tail = (bias, alpha, beta) if beta != 1 else (bias, alpha) if alpha != 1 else (bias,) if bias is not None else ()
    return (a, b, text, *tail)


def _added(result: TensorProxy, c: TensorProxy, beta: float) -> TensorProxy:
    data = get_compile_data()
    if c.dtype != result.dtype and data is not None and not data.autocast_stack.is_empty():
        c = ltorch.to(c, result.dtype)
    if c.dtype != result.dtype or c.device != result.device:
        raise ValueError(
            f"c is {c.dtype} on {c.device} and must be as a: {result.dtype} on {result.device}; nothing is cast here"
        )
    try:
        c = ltorch.expand(c, tuple(result.shape))
    except RuntimeError:
        shapes = tuple(c.shape), tuple(result.shape)
        raise ValueError(f"c of shape {shapes[0]} does not broadcast to the output's shape {shapes[1]}") from None
    return ltorch.add(result, c if beta == 1 else ltorch.mul(c, beta))


def _activated(result: TensorProxy, activation: str | None) -> TensorProxy:
    assert activation in ACTIVATIONS
    if activation == "relu":
        return ltorch.relu(result)
    return result if activation is None else ltorch.gelu(result, approximate="tanh")


def _gradient(symbol: Symbol) -> Callable[..., TensorProxy]:
    # A rule is called with every argument that the symbol has, those at their defaults too; `beta` scales the bias. How
    # sums are rounded and what the epilogue is, the fusion pass decides later.
    def rule(
        a: TensorProxy,
        b: TensorProxy,
        spec: str,
        bias: TensorProxy | None = None,
        alpha: float = 1,
        beta: float = 1,
        **_how: object,
    ) -> TensorProxy:
        fitted = resolve(spec, tuple(a.shape), tuple(b.shape), None if bias is None else tuple(bias.shape))
        result = symbol(*_arguments(a, b, spec, bias, alpha, beta))
        grad = get_grad(result)
        for name, operand, x, y in (("a", a, grad, _conj(b)), ("b", b, _conj(a), grad)):
            put_grad(operand, symbol(*_arguments(x, y, gradient_text(fitted, name), None, alpha)))
        if bias is not None:
            summed = _summed(grad, fitted)
            put_grad(bias, summed if beta == 1 else ltorch.mul(summed, beta))
        return result

    return rule


def _conj(x: TensorProxy) -> TensorProxy:
    # Thunder gives its torch module functions like this one when it is imported.
    return ltorch.conj(x) if dtypes.is_complex_dtype(x.dtype) else x  # type: ignore[attr-defined]


def _summed(grad: TensorProxy, fitted: Resolved) -> TensorProxy:
    """The bias's gradient: `grad` summed over the labels that the bias lacks."""
    p = pattern_of(fitted.text)
    assert p.bias is not None
    labels, kept = names_of(p.out), names_of(p.bias)
    grad = _reshaped(grad, tuple(fitted.sizes[name] for name in labels))
    gone = [i for i, name in enumerate(labels) if name not in kept]
    grad = ltorch.sum(grad, gone) if gone else grad
    left = [name for name in labels if name in kept]
    order = tuple(left.index(name) for name in kept)
    grad = grad if list(order) == sorted(order) else ltorch.permute(grad, order)
    return _reshaped(grad, shape_of(p.bias, fitted.sizes))


def _reshaped(x: TensorProxy, shape: tuple[int, ...]) -> TensorProxy:
    return x if tuple(x.shape) == shape else ltorch.reshape(x, shape)


def _autocast(symbol: Symbol) -> Callable[..., TensorProxy]:
    def rule(
        a: TensorProxy,
        b: TensorProxy,
        spec: str,
        bias: TensorProxy | None = None,
        alpha: float = 1,
        beta: float = 1,
        *,
        dtype: dtypes.dtype,
        **_how: object,
    ) -> TensorProxy:
        a, b = maybe_downcast_to(dtype, (a, b))
        if bias is not None:
            (bias,) = maybe_downcast_to(dtype, (bias,))
        return symbol(*_arguments(a, b, spec, bias, alpha, beta))

    return rule
