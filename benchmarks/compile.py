"""What compiling costs: the first call of thunder.jit on a stack of transformer blocks, with the executor and without.

The model is tiny, so that the call is all tracing and transforming. Depths double: the time should too.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import thunder
import torch
from torch import nn

import thunder_gemm_ex as gx
from benchmarks.comparison import EAGER, OURS, Comparison

# Blocks, and rounds: a shallow stack compiles in two seconds, whose noise takes more rounds than that of nine.
DEPTHS = {1: 31, 2: 15, 4: 9}
# The first call costs at most 1.05 times as much as without the executor.
TARGETS = {"Thunder": 1 / 1.05}


class Block(nn.Module):
    """A pre-norm transformer block with separate projections, as most models write it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, s, width] -> [b, s, width]"""
        b, s, width = x.shape
        y = self.norm_1(x)
        q, k, v = (p(y).view(b, s, self.heads, width // self.heads).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(b, s, width)
        x = x + self.o(mixed)
        return x + self.down(nn.functional.gelu(self.up(self.norm_2(x))))


def suite(device: str) -> Iterator[Comparison]:
    """Forward and training, each at every depth."""
    for training in (False, True):
        for depth in DEPTHS:
            yield _comparison(device, depth, training)


def _comparison(device: str, depth: int, training: bool) -> Comparison:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(16, 2) for _ in range(depth))).to(device).requires_grad_(training)
    x = torch.randn(2, 4, 16, device=device)
    candidates: dict[str, Callable[[], Sequence[torch.Tensor]]] = {
        EAGER: lambda: [model(x).detach()],
        "Thunder": functools.partial(_first_call, model, x, None),
        OURS: functools.partial(_first_call, model, x, gx.executors()),
    }
    name = f"first call, {depth} block(s), {'training' if training else 'inference'}"
    return Comparison(name, "width 16, 2 heads, [2, 4, 16]", candidates, TARGETS, rounds=DEPTHS[depth])


def _first_call(model: nn.Module, x: torch.Tensor, executors) -> list[torch.Tensor]:
    return [thunder.jit(model, executors=executors)(x).detach()]
