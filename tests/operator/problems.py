"""Calls that the operator's tests share, and what they mean in plain PyTorch: einsum over labels, terms, activation."""

import dataclasses

import torch

from tests.spec.reference import evaluate
from thunder_gemm_ex.spec import parse


@dataclasses.dataclass(frozen=True)
class Problem:
    """A spec and shapes; `bias` labelled by the spec or broadcast, `c` broadcastable to the output."""

    spec: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    bias: tuple[int, ...] | None = None
    c: tuple[int, ...] | None = None
    activation: str | None = None
    alpha: float = 1
    beta: float = 0

    def __str__(self):
        return f"{self.spec}{'' if self.activation is None else ' ' + self.activation}"

    @property
    def options(self):
        return {"activation": self.activation, "alpha": self.alpha, "beta": self.beta}

    def tensors(self, dtype=torch.float64, *, requires_grad=False, lead=()):
        """(a, b, bias, c), the last two perhaps None; `lead` sizes come before each shape."""
        shapes = (self.a, self.b, self.bias, self.c)
        made = [None if s is None else torch.randn(*lead, *s, dtype=dtype) for s in shapes]
        return [None if x is None else x.requires_grad_(requires_grad) for x in made]

    def eager(self, a, b, bias=None, c=None):
        """What the call means, in torch's own operations."""
        pattern = parse(self.spec)
        labelled = pattern.bias is not None
        spec = pattern.bind(tuple(a.shape), tuple(b.shape), tuple(bias.shape) if labelled else None)
        out = self.alpha * evaluate(dataclasses.replace(spec, bias=None), a, b)
        if c is not None and self.beta != 0:
            out = out + self.beta * c
        if labelled:
            zeros = a.new_zeros(()).expand(a.shape), b.new_zeros(()).expand(b.shape)
            out = out + evaluate(spec, *zeros, bias)
        elif bias is not None:
            out = out + bias
        if self.activation == "relu":
            return torch.relu(out)
        return out if self.activation is None else torch.nn.functional.gelu(out, approximate="tanh")


PROBLEMS = [
    Problem("m k, k n -> m n", (3, 4), (4, 2)),
    Problem("a b k, n k -> a b n", (2, 3, 4), (5, 4), bias=(5,), activation="gelu"),
    Problem("b s h d, b t h d -> b h s t", (2, 3, 2, 4), (2, 2, 2, 4), alpha=0.5),
    Problem("b h s t, b t h d -> b s (h d)", (2, 2, 3, 2), (2, 2, 2, 4), c=(3, 1), beta=-2),
    Problem("m p k, (n u:3) k, (n u) -> m n p u", (2, 2, 3), (6, 3), bias=(6,), activation="relu"),
    Problem("m k, k (n u), n -> m (u n)", (3, 4), (4, 6), bias=(2,)),
    Problem("k, k -> ", (4,), (4,)),
    Problem("m, n -> n m", (3,), (2,), c=(2, 3), beta=1, bias=(1,)),
    Problem("m 1, 1 n -> m n", (3, 1), (1, 2), activation="gelu", alpha=2),
    Problem("(h d:2) k, k n -> h (d n)", (4, 3), (3, 2), bias=(4,)),
    Problem("m k, k n -> m n", (3, 0), (0, 2), bias=(3, 1)),
]
