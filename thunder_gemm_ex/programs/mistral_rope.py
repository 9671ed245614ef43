"""Rotary embedding and the repeat of key/value heads, as Mistral NeMo's attention runs them.

The angles are an outer product written as a matmul, `inv_freq[b, 64, 1] @ position[b, 1, s]`: one number is summed
(K=1), so a broadcast multiply does the same and any fuser can take it in.
"""

from collections.abc import Callable

import torch

HEADS, KV_HEADS, HEAD_SIZE = 32, 8, 128


def cos_sin(inv_freq: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """inv_freq: [64], position_ids: [b, s] -> cos, sin: [b, s, 128] in bfloat16."""
    frequency = inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
    position = position_ids[:, None, :].float()
    angle = torch.matmul(frequency, position).transpose(1, 2)
    both_halves = torch.cat((angle, angle), dim=-1)
    return both_halves.cos().to(torch.bfloat16), both_halves.sin().to(torch.bfloat16)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """x: [..., d] as halves (first, second) -> (-second, first)."""
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def to_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """x: [b, s, heads * 128] -> [b, heads, s, 128], a view."""
    b, s, _ = x.shape
    return x.view(b, s, heads, HEAD_SIZE).transpose(1, 2)


def repeat_heads(x: torch.Tensor) -> torch.Tensor:
    """x: [b, 8, s, 128] -> [b, 32, s, 128]: each key/value head serves four query heads."""
    b, _, s, _ = x.shape
    repeated = x[:, :, None].expand(b, KV_HEADS, HEADS // KV_HEADS, s, HEAD_SIZE)
    return repeated.reshape(b, HEADS, s, HEAD_SIZE)


def rope(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, inv_freq: torch.Tensor, position_ids: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """q: [b, s, 4096], k, v: [b, s, 1024], inv_freq: [64], position_ids: [b, s].

    Returns cos, sin: [b, 1, s, 128] and the rotated q, the rotated k, v: [b, 32, s, 128].
    """
    q, k, v = to_heads(q, HEADS), to_heads(k, KV_HEADS), to_heads(v, KV_HEADS)
    cos, sin = (t.unsqueeze(1) for t in cos_sin(inv_freq, position_ids))
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin
    return cos, sin, q, repeat_heads(k), repeat_heads(v)


def program(device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The whole of `rope`; `cos_sin` is the part around the K=1 matmul."""
    return rope


def cos_sin_inputs(
    device: str = "cpu", dtype: torch.dtype = torch.bfloat16, *, seq: int = 4096
) -> tuple[torch.Tensor, ...]:
    """(inv_freq[64], position_ids[1, seq] in int64)."""
    exponent = torch.arange(0, HEAD_SIZE, 2, device=device).float() / HEAD_SIZE
    return (1.0 / 10000.0**exponent).to(dtype), torch.arange(seq, device=device)[None]


def inputs(
    device: str = "cpu", dtype: torch.dtype = torch.bfloat16, *, seq: int = 4096, requires_grad: bool = False
) -> tuple[torch.Tensor, ...]:
    """(q[1, seq, 4096], k, v[1, seq, 1024], inv_freq[64], position_ids[1, seq]); q, k, v may want gradients."""
    q, k, v = (
        torch.randn(1, seq, heads * HEAD_SIZE, device=device, dtype=dtype, requires_grad=requires_grad)
        for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    return q, k, v, *cos_sin_inputs(device, dtype, seq=seq)
