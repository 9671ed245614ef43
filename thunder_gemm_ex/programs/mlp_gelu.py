"""A transformer's MLP: linear, tanh GELU, linear. Bias and GELU could be the GEMM's epilogue, forward and backward."""

import torch


class MLP(torch.nn.Module):
    """down(gelu(up(x))) with biases: d -> hidden -> d features."""

    def __init__(
        self, d: int = 512, hidden: int = 2048, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.up = torch.nn.Linear(d, hidden, device=device, dtype=dtype)
        self.down = torch.nn.Linear(hidden, d, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [..., d] -> [..., d]."""
        out: torch.Tensor = self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh"))
        return out


def program(device: str = "cpu", dtype: torch.dtype = torch.float32, *, d: int = 512) -> torch.nn.Module:
    """An MLP over d features, 4 d in the middle."""
    return MLP(d, 4 * d, device=device, dtype=dtype)


def inputs(
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    b: int = 8,
    s: int = 64,
    d: int = 512,
    requires_grad: bool = True,
) -> tuple[torch.Tensor, ...]:
    """(x[b, s, d],)."""
    return (torch.randn(b, s, d, device=device, dtype=dtype, requires_grad=requires_grad),)
