"""Attention on [batch, sequence, heads, head size], as many heads of k and v as of q or fewer, against its peers.

Without a fused kernel, so that what is compared is how the two products meet strides that do not merge.
"""

from collections.abc import Iterator

import torch

from benchmarks.comparison import EAGER, Comparison
from benchmarks.peers import candidates
from thunder_gemm_ex.programs.attention_bshd import attention

FORWARD = {EAGER: 1.15, "Thunder": 1.15}
TRAINING = {EAGER: 1.08, "Thunder": 1.25}
B, S, H, D = 4, 512, 16, 64


def grouped(q, k, v):
    """q: [b, s, h, d], k, v: [b, s, g, d] with g dividing h -> [b, s, h * d]; each head of k and v serves h / g of q."""
    b, s, g, d = k.shape
    repeated = (x[:, :, :, None].expand(b, s, g, q.shape[2] // g, d).reshape(q.shape) for x in (k, v))
    return attention(q, *repeated)


def inputs(device: str, heads: int, trained: bool) -> tuple[torch.Tensor, ...]:
    """q with H heads, k and v with `heads`."""
    return tuple(torch.randn(B, S, count, D, device=device, requires_grad=trained) for count in (H, heads, heads))


def suite(device: str) -> Iterator[Comparison]:
    """Both kinds, forward and training step."""
    for name, program, heads in (("BSHD", attention, H), ("GQA", grouped, H // 4)):
        for trained in (False, True):
            given = inputs(device, heads, trained)
            yield Comparison(
                f"{name} attention, {'training step' if trained else 'forward'}",
                ", ".join(str(list(x.shape)) for x in given),
                candidates(program, given),
                TRAINING if trained else FORWARD,
                rounds=15,
            )
