"""Gradients and tangents of the operator, as spec algebra: each is a `gemm` again, so every order of both modes follows.

Of `D = alpha * a b + beta * c + bias` with the spec "m k, k n -> m n": da is alpha times the gemm "m n, k n -> m k" of dD
and b, db that of a and dD, dc is beta * dD, dbias is dD summed over the labels that the bias lacks; forward, the tangent
is the product rule. The derivative of an activation is torch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _set_fwd_grad_enabled, unpack_dual

from thunder_gemm_ex.operator.checks import activated, check_agreement, check_kinds, check_options, expanded
from thunder_gemm_ex.operator.kernel import compute, runs_here
from thunder_gemm_ex.operator.labels import bias_of, pattern_of
from thunder_gemm_ex.operator.sizes import gradient_text, product_text, resolve, spread_to, summed_to


def kernel(op: torch._ops.OpOverload) -> Callable[..., torch.Tensor]:
    """The Autograd entry of `op`."""
    function = _function(op)

    def differentiable(
        keyset: torch._C.DispatchKeySet,
        a: torch.Tensor,
        b: torch.Tensor,
        spec: str = "m k, k n -> m n",
        bias: torch.Tensor | None = None,
        activation: str | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if not _recorded(a, b, bias, c):
            return _below(op, keyset, a, b, spec, bias, activation, alpha, beta, c)
        check_kinds(a, b, bias, c)
        check_options(activation, alpha, beta, c)
        check_agreement(a, b, bias, c)
        fitted = resolve(spec, a.shape, b.shape, None if bias is None else bias.shape)
        # With beta=0 the values of c are not read, but its gradient is defined, zeros, as addmm's.
        c = None if c is None else expanded(c, fitted.shape)
        with enable_single_level_autograd_function():
            out = function.apply(keyset, a, b, bias, c, fitted, alpha, beta)
        return activated(out, activation)

    return differentiable


def _below(
    op: torch._ops.OpOverload,
    keyset: torch._C.DispatchKeySet,
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    beta: float,
    c: torch.Tensor | None,
) -> torch.Tensor:
    """What lies under autograd: the next level of a transform, a mode, or the computation itself, which is then called."""
    with torch._C._AutoDispatchBelowAutograd():
        if runs_here(a, b, bias, c):
            check_kinds(a, b, bias, c)
            check_options(activation, alpha, beta, c)
            return compute(a, b, spec, bias, activation, alpha, beta, c)
        below = keyset & torch._C._after_autograd_keyset
        out: torch.Tensor = op.redispatch(below, a, b, spec, bias, activation, alpha, beta, c)
        return out


def writing_kernel(op: torch._ops.OpOverload) -> Callable[..., None]:
    """The ADInplaceOrView entry of `op`, which writes to its first argument: autograd must see that it changed."""

    def writing(keyset: torch._C.DispatchKeySet, out: torch.Tensor, *args: Any) -> None:
        with torch._C._AutoDispatchBelowADInplaceOrView():
            op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, out, *args)
        torch.autograd.graph.increment_version(out)

    return writing


def _recorded(*tensors: torch.Tensor | None) -> bool:
    present = [x for x in tensors if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in present):
        return True
    return any(unpack_dual(x).tangent is not None for x in present)


def _function(op: torch._ops.OpOverload) -> Any:
    """The autograd function around `op`.

    A single-level one, which functorch makes of every autograd.Function: here, below the dispatcher, one level is all there
    is. Torch's register_autograd makes none, and torch.func refuses such operators.
    """

    class Gemm(torch.autograd.function._SingleLevelFunction):
        @staticmethod
        def forward(*inputs: Any) -> torch.Tensor:
            keyset, a, b, bias, c, fitted, alpha, beta = inputs
            # apply() turned both modes off, but under nested transforms the next level below records its own.
            with torch.enable_grad(), _set_fwd_grad_enabled(True):
                return _below(op, keyset, a, b, fitted.text, bias, None, alpha, beta, c)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
            _, a, b, _, _, ctx.fitted, ctx.alpha, ctx.beta = inputs
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(a, b)
            ctx.save_for_forward(a, b)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            if grad is None:
                return (None,) * 8
            return (None, *_gradients(op, ctx, grad), None, None, None)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
            _, a, b, bias, c, *_ = tangents
            # Forward mode is off here as well, and a tangent may have one of its own, of an outer jvp.
            with _set_fwd_grad_enabled(True):
                return _tangent(op, ctx, a, b, bias, c)

    return Gemm


def _gradients(op: torch._ops.OpOverload, ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Gradients of a, b, bias, c: those that are wanted."""
    a, b = ctx.saved_tensors
    fitted, pattern = ctx.fitted, pattern_of(ctx.fitted.text)
    wants_a, wants_b, wants_bias, wants_c = ctx.needs_input_grad[1:5]

    def product(operand: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        text = gradient_text(fitted, operand)
        out: torch.Tensor = op(x, y, text, None, None, ctx.alpha)
        return out

    return (
        product("a", grad, _conj(b)) if wants_a else None,
        product("b", _conj(a), grad) if wants_b else None,
        summed_to(grad, pattern.out, bias_of(pattern), fitted.sizes) if wants_bias else None,
        _scaled(grad, ctx.beta) if wants_c else None,
    )


def _tangent(
    op: torch._ops.OpOverload,
    ctx: Any,
    da: torch.Tensor | None,
    db: torch.Tensor | None,
    dbias: torch.Tensor | None,
    dc: torch.Tensor | None,
) -> torch.Tensor:
    """The product rule: alpha * (da b + a db) + beta * dc + dbias, of what has a tangent."""
    a, b = (unpack_dual(x).primal for x in ctx.saved_tensors)
    fitted, pattern = ctx.fitted, pattern_of(ctx.fitted.text)
    total = None if dc is None else _scaled(dc, ctx.beta)
    if dbias is not None:
        spread = spread_to(dbias, bias_of(pattern), pattern.out, fitted.sizes)
        # A tangent has to be a tensor of its own, laid out like its primal, which is contiguous.
        total = spread.clone(memory_format=torch.contiguous_format) if total is None else total + spread
    for x, y in ((da, b), (a, db)):
        if x is not None and y is not None:
            scale = () if total is None else (1, total)
            total = op(x, y, product_text(fitted), None, None, ctx.alpha, *scale)
    assert total is not None  # a tangent is asked for where an input has one
    return total


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.zeros_like(x) if factor == 0 else x if factor == 1 else x * factor


def _conj(x: torch.Tensor) -> torch.Tensor:
    return x.conj() if x.is_complex() else x
