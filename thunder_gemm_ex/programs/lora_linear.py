"""A linear layer with a low-rank adapter: the base weight is frozen, both adapter factors are used transposed.

Trained, it needs eight contractions; Thunder's own trace surrounds them with eighteen views.
"""

from typing import Any

import torch


class LoRALinear(torch.nn.Module):
    """y = x W^T + bias + (x A^T B^T) alpha / r, with W[d_out, d_in] frozen, A[r, d_in], B[d_out, r]."""

    def __init__(
        self,
        d_in: int = 1024,
        d_out: int = 1024,
        r: int = 8,
        alpha: int = 16,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = torch.nn.Parameter(torch.randn(d_out, d_in, **like) / d_in**0.5, requires_grad=False)
        self.bias = torch.nn.Parameter(torch.zeros(d_out, **like))
        self.lora_a = torch.nn.Parameter(torch.randn(r, d_in, **like) / d_in**0.5)
        self.lora_b = torch.nn.Parameter(torch.randn(d_out, r, **like))
        self.scaling = alpha / r

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [..., d_in] -> [..., d_out]."""
        adapted: torch.Tensor = x @ self.lora_a.transpose(0, 1) @ self.lora_b.transpose(0, 1)
        base: torch.Tensor = torch.nn.functional.linear(x, self.weight, self.bias)
        return base + adapted * self.scaling


def program(device: str = "cpu", dtype: torch.dtype = torch.float32, *, d: int = 1024) -> torch.nn.Module:
    """A LoRALinear from d to d features."""
    return LoRALinear(d, d, device=device, dtype=dtype)


def inputs(
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    b: int = 4,
    s: int = 128,
    d: int = 1024,
    requires_grad: bool = True,
) -> tuple[torch.Tensor, ...]:
    """(x[b, s, d],)."""
    return (torch.randn(b, s, d, device=device, dtype=dtype, requires_grad=requires_grad),)
