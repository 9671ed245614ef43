"""`gx.gemm`: the contraction as a function on tensors; a direct call where operands want nothing of the dispatcher."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from thunder_gemm_ex.engines.choose import checked_calls, site
from thunder_gemm_ex.operator import library
from thunder_gemm_ex.operator.checks import check_kinds, check_options, check_out
from thunder_gemm_ex.operator.kernel import compute, compute_into, runs_here
from thunder_gemm_ex.operator.labels import pattern_of

_STRIDED = torch.strided
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_seen: set[str] = set()
_compiling = torch.compiler.is_dynamo_compiling


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str = "m k, k n -> m n",
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """`activation(alpha * a b + beta * c + bias)`, contracted as `spec` labels the operands' stored dimensions.

    Labels of both inputs that the output lacks are summed; `(h d)` is one dimension joined from two labels, `1` one of
    size 1, `label:8` states a size that the shapes do not tell. The result is contiguous in the order of the output.

    Differentiable in a, b, bias and c, forward and backward and any number of times; works under torch.func's transforms,
    torch.autocast (all tensors are cast, as for torch.matmul), torch.compile and torch.export, there as
    `torch.ops.thunder_gemm_ex.gemm`.

    Args:
        a, b: tensors of one dtype on one device, with as many dimensions as the spec gives them.
        spec: such as "b h s d, b h t d -> b h s t"; a third input labels the bias.
        bias: labelled by the spec's third input, or else broadcast against the output's last dimensions.
        activation: None, "relu" or "gelu" (the tanh form, as cuBLASLt computes it).
        alpha, beta: numbers that scale the product and `c`. With beta=0 `c` is not read: NaN in it is ignored.
        c: broadcastable to the output's shape.
        out: a tensor of the output's shape, dtype and device, in any strides, that takes the result and is returned. As
            with torch's functions nothing is differentiated through it.

    Raises:
        SpecError (a ValueError): the spec does not parse or does not fit the shapes.
        ValueError: dtypes, devices or the shape of `out` differ, or an option is not one of its choices.
        TypeError: an operand is not a strided tensor, or alpha or beta is not a number.
        RuntimeError: `out` is given and an argument requires grad.
    """
    if _compiling():
        return _operator(a, b, spec, bias, activation, alpha, beta, c, out)
    # For small operands the checks that follow, one by one, take several times as long as the product. Where one torch
    # call means the spec and finds nothing wrong, nothing is; where anything is amiss, the long way says what.
    bare = bias is None and c is None and activation is None and out is None and alpha == 1 and beta == 0
    if bare:
        kind, other = type(a), type(b)
        if (kind is _Tensor or kind is _Parameter) and (other is _Tensor or other is _Parameter):
            try:
                call, a_rank, b_rank, outer, k = checked_calls[spec]
                shape = a.shape
                if a.is_cpu and b.is_cpu and len(shape) == a_rank and b.ndim == b_rank:
                    if a.layout is _STRIDED and b.layout is _STRIDED:
                        if outer is None or shape[k] != 1:
                            return call(a, b)  # type: ignore[no-any-return]
                        return outer(a, b)  # type: ignore[no-any-return]
            except (KeyError, TypeError, RuntimeError):  # unknown spec, a spec that is no string, sizes that do not fit
                pass
    check_kinds(a, b, bias, c)
    check_options(activation, alpha, beta, c)
    if bare and type(spec) is str and spec not in _seen and pattern_of(spec).bias is None:
        # The first call of a spec finds out whether one torch call means it, and goes the way of all later ones.
        site(spec)
        _seen.add(spec)
        return gemm(a, b, spec)
    if not _direct(a, b, bias, c, out):
        return _operator(a, b, spec, bias, activation, alpha, beta, c, out)
    if out is None:
        return compute(a, b, spec, bias, activation, alpha, beta, c)
    return compute_into(out, a, b, spec, bias, activation, alpha, beta, c)


def _operator(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    beta: float,
    c: torch.Tensor | None,
    out: torch.Tensor | None,
) -> torch.Tensor:
    if out is None:
        result: torch.Tensor = library.gemm(a, b, spec, bias, activation, alpha, beta, c)
        return result
    check_out(out, out.shape if isinstance(out, torch.Tensor) else (), a, (a, b, bias, c))
    library.gemm_out(out, a, b, spec, bias, activation, alpha, beta, c)
    return out


def _direct(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    out: torch.Tensor | None,
) -> bool:
    """Whether nothing of torch's dispatcher is wanted: no gradient or tangent, no cast, and nothing between."""
    if torch.is_grad_enabled():
        if a.requires_grad or b.requires_grad:
            return False
        if (bias is not None and bias.requires_grad) or (c is not None and c.requires_grad):
            return False
    if forward_ad._current_level >= 0 or torch._C._is_any_autocast_enabled():
        return False
    return runs_here(a, b, bias, c, out)
