"""Graph 23 of NeVA as Dynamo cuts it out: a tensor-parallel linear without bias, its weight transposed by hand.

The GEMM of x[384, 2, 13824] and w[5120, 13824] can read w as it is stored: "a b k, n k -> a b n".
"""

import torch


class DenseToH(torch.nn.Module):
    """The "4h to h" projection; the weight is an argument, as in the captured graph."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor]:
        """x: [a, b, k], weight: [n, k] -> ([a, b, n],)."""
        return (torch.matmul(x, weight.t()),)


def program(device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> torch.nn.Module:
    """The module; it owns no parameters, so device and dtype are those of its inputs."""
    return DenseToH()


def inputs(
    device: str = "cpu", dtype: torch.dtype = torch.bfloat16, *, scale: int = 1, requires_grad: bool = False
) -> tuple[torch.Tensor, ...]:
    """(x[384, 2, 13824 / scale], weight[5120 / scale, 13824 / scale]); outputs have unit variance."""
    k, n = 13824 // scale, 5120 // scale
    x = torch.randn(384, 2, k, device=device, dtype=dtype) / k**0.5
    weight = torch.randn(n, k, device=device, dtype=dtype)
    return x.requires_grad_(requires_grad), weight.requires_grad_(requires_grad)
