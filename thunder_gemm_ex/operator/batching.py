"""vmap of the operator: one label more in the spec. Nothing is moved, expanded or copied to make room for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from thunder_gemm_ex.operator.checks import activated
from thunder_gemm_ex.operator.labels import batched, bias_of, pattern_of
from thunder_gemm_ex.operator.sizes import Resolved, product_text, resolve, spread_to


def rule(op: torch._ops.OpOverload) -> Callable[..., tuple[torch.Tensor, int]]:
    """The batching rule of `op`, as torch.library.register_vmap wants it: returns (output, its batch dimension)."""

    def batch(
        info: Any,
        in_dims: Sequence[int | None],
        a: torch.Tensor,
        b: torch.Tensor,
        spec: str = "m k, k n -> m n",
        bias: torch.Tensor | None = None,
        activation: str | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, int]:
        at = dict(zip(("a", "b", "spec", "bias", "activation", "alpha", "beta", "c"), in_dims))
        where = {name: at.get(name) for name in ("a", "b", "bias", "c")}
        fitted = resolve(
            spec,
            _logical(a, where["a"]),
            _logical(b, where["b"]),
            None if bias is None else _logical(bias, where["bias"]),
        )
        if where["a"] is None and where["b"] is None:
            return _terms_batched(op, info.batch_size, where, fitted, a, b, bias, activation, alpha, beta, c), 0
        text, out_dim = batched(fitted.text, where["a"], where["b"], where["bias"])
        c = None if c is None else _aligned(c, where["c"], len(fitted.shape), out_dim)
        return op(a, b, text, bias, activation, alpha, beta, c), out_dim

    return batch


def _logical(x: torch.Tensor, where: int | None) -> tuple[Any, ...]:
    """The shape of one element of the batch."""
    return tuple(size for i, size in enumerate(x.shape) if i != where)


def _aligned(c: torch.Tensor, where: int | None, rank: int, out_dim: int) -> torch.Tensor:
    """`c` such that it broadcasts to the output with its batch at `out_dim`."""
    if where is None:
        c = c.unsqueeze(0)
        where = 0
    c = c.movedim(where, 0)
    c = c.reshape([c.shape[0], *[1] * (rank + 1 - c.dim()), *c.shape[1:]])
    return c.movedim(0, out_dim)


def _terms_batched(
    op: torch._ops.OpOverload,
    size: int,
    where: Mapping[str, int | None],
    fitted: Resolved,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    beta: float,
    c: torch.Tensor | None,
) -> torch.Tensor:
    """Only the bias or c has a batch: the product is one for all, and is computed once."""
    out: torch.Tensor = op(a, b, product_text(fitted), None, None, alpha).unsqueeze(0)
    if c is not None and beta != 0:
        out = out + beta * _aligned(c, where["c"], len(fitted.shape), 0)
    if bias is not None:
        out = out + _bias_batched(bias, where["bias"], size, fitted)
    return activated(out, activation).expand(size, *fitted.shape)


def _bias_batched(bias: torch.Tensor, where: int | None, size: int, fitted: Resolved) -> torch.Tensor:
    p = pattern_of(fitted.text)
    if where is None:
        return spread_to(bias, bias_of(p), p.out, fitted.sizes)
    label = "vmap"  # no pattern is written with it: it only has to differ from the labels there
    while label in fitted.sizes:
        label += "_"
    dims = (*bias_of(p)[:where], (label,), *bias_of(p)[where:])
    return spread_to(bias, dims, ((label,), *p.out), {**fitted.sizes, label: size})
