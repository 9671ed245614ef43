"""A transformer's MLP: linear, tanh GELU, linear. Bias and GELU could be the GEMM's epilogue, forward and backward."""

import torch


class MLP(torch.nn.Module):
    """down(gelu(up(x))) with biases: d -> hidden -> d features."""

    def __init__(self, d=512, hidden=2048, device="cpu", dtype=torch.float32):
        super().__init__()
        self.up = torch.nn.Linear(d, hidden, device=device, dtype=dtype)
        self.down = torch.nn.Linear(hidden, d, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [..., d] -> [..., d]."""
        return self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh"))


def program(device="cpu", dtype=torch.float32, *, d=512) -> torch.nn.Module:
    """An MLP over d features, 4 d in the middle."""
    return MLP(d, 4 * d, device=device, dtype=dtype)


def inputs(device="cpu", dtype=torch.float32, *, b=8, s=64, d=512, requires_grad=True):
    """(x[b, s, d],)."""
    return (torch.randn(b, s, d, device=device, dtype=dtype, requires_grad=requires_grad),)
