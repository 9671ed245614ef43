"""Attention without a fused kernel, on projections stored [batch, sequence, heads, head size].

Eager copies q, k and the result, because batch and heads are no neighbours in memory. As contractions:
"b s h d, b t h d -> b h s t", softmax over t, "b h s t, b t h d -> b s (h d)".
"""

from collections.abc import Callable

import torch


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q, k, v: [b, s, h, d] -> [b, s, h * d]."""
    b, s, h, d = q.shape
    q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
    scores = torch.matmul(q, k.transpose(-2, -1)) * d**-0.5
    mixed = torch.matmul(torch.softmax(scores, dim=-1), v)
    return mixed.permute(0, 2, 1, 3).reshape(b, s, h * d)


def program(device: str = "cpu", dtype: torch.dtype = torch.float32) -> Callable[..., torch.Tensor]:
    """The function `attention`."""
    return attention


def inputs(
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    b: int = 4,
    s: int = 512,
    h: int = 16,
    d: int = 64,
    requires_grad: bool = False,
) -> tuple[torch.Tensor, ...]:
    """(q, k, v), each [b, s, h, d]."""
    return tuple(torch.randn(b, s, h, d, device=device, dtype=dtype, requires_grad=requires_grad) for _ in range(3))
