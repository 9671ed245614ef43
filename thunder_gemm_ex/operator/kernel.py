"""The computation itself, below autograd and every transform: fit the spec, pick the site, run it.

`compute` is what the dispatcher calls for real tensors on any device; `shaped` is the same for tensors without data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from thunder_gemm_ex.engines.aten import NAMES
from thunder_gemm_ex.engines.choose import site
from thunder_gemm_ex.engines.terms import Terms
from thunder_gemm_ex.operator.checks import activated, check_agreement, check_out, expanded
from thunder_gemm_ex.operator.sizes import Resolved, resolve

# Made once: a call only picks one. Indexed [alpha given][c given][bias given].
_TERMS = [[[Terms(alpha, c, bias) for bias in (False, True)] for c in (False, True)] for alpha in (False, True)]
# Torch's functions that write to `out` themselves, by the expression that the aten engine makes of a spec.
_WITH_OUT = ("mm(", "bmm(", "matmul(")
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def runs_here(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    c: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> bool:
    """Whether nothing stands between these tensors and `compute`: plain tensors with data, no mode and no transform."""
    if type(a) not in _PLAIN or type(b) not in _PLAIN or a.is_meta:
        return False
    for x in (bias, c, out):
        if x is not None and type(x) not in _PLAIN:
            return False
    return not (torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack())


def compute(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """`activation(alpha * a b + beta * c + bias)` on real tensors; records nothing for autograd on an engine of our own."""
    check_agreement(a, b, bias, c)
    fitted = resolve(spec, a.shape, b.shape, None if bias is None else bias.shape)
    return _run(a, b, fitted, bias, activation, alpha, beta, c)


def _run(
    a: torch.Tensor,
    b: torch.Tensor,
    fitted: Resolved,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    beta: float,
    c: torch.Tensor | None,
) -> torch.Tensor:
    c = None if c is None or beta == 0 else expanded(c, fitted.shape)
    terms = _TERMS[alpha != 1][c is not None][bias is not None]
    out: torch.Tensor = site(fitted.text, terms)(a, b, bias, c, alpha, beta)
    return activated(out, activation)


def compute_into(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """`compute` written to `out`: by torch's own call where one means the spec, else by a copy. Returns `out`."""
    check_agreement(a, b, bias, c)
    fitted = resolve(spec, a.shape, b.shape, None if bias is None else bias.shape)
    check_out(out, fitted.shape, a, (a, b, bias, c))
    found = site(fitted.text, _TERMS[alpha != 1][c is not None and beta != 0][bias is not None])
    source = None if found.direct is None else found.direct.detail
    if activation or a.is_cuda or source is None or not source.startswith(_WITH_OUT) or _overlaps(out, a, b):
        return out.copy_(_run(a, b, fitted, bias, activation, alpha, beta, c))
    return _into(source)(a, b, out)


def _overlaps(out: torch.Tensor, *inputs: torch.Tensor) -> bool:
    # Torch's products read operands after they have begun to write. The same storage may hold two tensors that do not
    # meet; then there is one copy too many, and no wrong value.
    storage = out.untyped_storage().data_ptr()
    return any(x.untyped_storage().data_ptr() == storage for x in inputs)


@functools.lru_cache(maxsize=1024)
def _into(source: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    function: Callable[..., torch.Tensor] = eval(f"lambda a, b, out: {source[:-1]}, out=out)", dict(NAMES))
    return function


def shaped(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """What `compute` returns, without values: for meta tensors, torch.compile and torch.export."""
    check_agreement(a, b, bias, c)
    fitted = resolve(spec, a.shape, b.shape, None if bias is None else bias.shape)
    if c is not None and beta != 0:
        expanded(c, fitted.shape)
    return a.new_empty(fitted.shape)
