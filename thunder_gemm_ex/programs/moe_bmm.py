"""A mixture of experts as two batched matmuls; each expert's weights are stored [out, in] and used transposed.

Next to the pointwise SiLU a fuser takes the transpose in and writes it out: all experts' weights, copied every step.
"""

from collections.abc import Callable

import torch


def experts(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """x: [e, tokens, d], w1: [e, f, d], w2: [e, d, f] -> [e, tokens, d]."""
    hidden = torch.nn.functional.silu(torch.bmm(x, w1.transpose(1, 2)))
    return torch.bmm(hidden, w2.mT)


def program(device: str = "cpu", dtype: torch.dtype = torch.float32) -> Callable[..., torch.Tensor]:
    """The function `experts`."""
    return experts


def inputs(
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    e: int = 8,
    tokens: int = 64,
    d: int = 256,
    f: int = 512,
    requires_grad: bool = True,
) -> tuple[torch.Tensor, ...]:
    """(x[e, tokens, d], w1[e, f, d], w2[e, d, f])."""
    shapes = (e, tokens, d), (e, f, d), (e, d, f)
    return tuple(torch.randn(shape, device=device, dtype=dtype, requires_grad=requires_grad) for shape in shapes)
