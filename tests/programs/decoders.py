"""Decoders as their own projects write them: nanoGPT's stack, litgpt's Llama block and LoRA attention, grouped queries."""

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Size(NamedTuple):
    """Sizes of a model and its input; `groups` are heads of keys and values where those are fewer."""

    d: int
    heads: int
    groups: int
    seq: int
    batch: int
    vocab: int = 40

    @property
    def head(self) -> int:
        """Size of one head."""
        return self.d // self.heads

    def tokens(self) -> tuple:
        """(ids [batch, seq],)"""
        return (torch.randint(0, self.vocab, (self.batch, self.seq)),)

    def hidden(self) -> tuple:
        """(states [batch, seq, d] that want a gradient,)"""
        return (torch.randn(self.batch, self.seq, self.d, requires_grad=True),)


# Calls so small that a CPU copies rather than loops, and the least size at which it loops (engines/loop.py).
TINY, LARGE = Size(64, 4, 2, 12, 3), Size(512, 8, 4, 128, 2)


def attend(q, k, v):
    """Causal attention without a fused kernel over [b, h, s, d]."""
    scores = q @ k.transpose(-2, -1) * (1.0 / q.size(-1) ** 0.5)
    mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
    return F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v


class NanoBlock(torch.nn.Module):
    """nanoGPT's Block: one projection for q, k and v, split after it; an MLP with GELU."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(size.d), torch.nn.LayerNorm(size.d)
        self.c_attn, self.c_proj = torch.nn.Linear(size.d, 3 * size.d), torch.nn.Linear(size.d, size.d)
        self.c_fc, self.mlp_proj = torch.nn.Linear(size.d, 4 * size.d), torch.nn.Linear(4 * size.d, size.d)

    def attention(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, d = x.size()
        q, k, v = self.c_attn(x).split(d, dim=2)
        q, k, v = (t.view(b, s, self.size.heads, d // self.size.heads).transpose(1, 2) for t in (q, k, v))
        return self.c_proj(attend(q, k, v).transpose(1, 2).contiguous().view(b, s, d))

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class NanoGPT(torch.nn.Module):
    """Two blocks between an embedding and a head that share one weight."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.wte, self.wpe = torch.nn.Embedding(size.vocab, size.d), torch.nn.Embedding(size.seq, size.d)
        self.h = torch.nn.ModuleList([NanoBlock(size), NanoBlock(size)])
        self.ln_f = torch.nn.LayerNorm(size.d)
        self.lm_head = torch.nn.Linear(size.d, size.vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx):
        """idx: [b, s] -> logits [b, s, vocab]."""
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class RMSNorm(torch.nn.Module):
    """litgpt's RMSNorm: computed in float32."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.weight = torch.nn.Parameter(torch.ones(size.d))

    def forward(self, x):
        """x: [..., d]."""
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def rotate(x, cos, sin):
    """Rotary embedding of [b, h, s, head] by cos and sin [s, head]."""
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaBlock(torch.nn.Module):
    """litgpt's Llama block: fused qkv by groups, rope, keys and values expanded to the query heads, SwiGLU."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.norm_1, self.norm_2 = RMSNorm(size), RMSNorm(size)
        self.attn = torch.nn.Linear(size.d, (size.heads + 2 * size.groups) * size.head, bias=False)
        self.proj = torch.nn.Linear(size.heads * size.head, size.d, bias=False)
        self.fc_1, self.fc_2 = (torch.nn.Linear(size.d, 3 * size.d, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(3 * size.d, size.d, bias=False)
        angle = torch.outer(
            torch.arange(size.seq).float(), 10000.0 ** (-torch.arange(0, size.head, 2) / size.head)
        ).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def attention(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, _ = x.size()
        per_group = self.size.heads // self.size.groups
        qkv = self.attn(x).view(b, s, self.size.groups, per_group + 2, self.size.head).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((per_group, 1, 1), dim=2)
        k, v = (t.expand(b, self.size.groups, per_group, s, self.size.head) for t in (k, v))
        q, k, v = (t.reshape(b, self.size.heads, s, self.size.head) for t in (q, k, v))
        y = attend(rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin), v)
        return self.proj(y.transpose(1, 2).reshape(b, s, self.size.heads * self.size.head))

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        x = x + self.attention(self.norm_1(x))
        n = self.norm_2(x)
        return x + self.down(F.silu(self.fc_1(n)) * self.fc_2(n))


class LoRAQKV(torch.nn.Module):
    """litgpt's LoRAQKVLinear: adapters of q and v by a grouped convolution's worth of matmuls, zeros where k stands."""

    def __init__(self, size: Size, r=4):
        super().__init__()
        self.size = size
        self.linear = torch.nn.Linear(size.d, 3 * size.d)
        self.linear.weight.requires_grad_(False)
        self.lora_a = torch.nn.Parameter(torch.randn(2 * r, size.d) / 8)
        self.lora_b = torch.nn.Parameter(torch.randn(2 * size.d, r) / 8)
        # Which columns of the output the adapters have: those of q and of v.
        self.register_buffer(
            "columns", torch.cat((torch.arange(size.d), torch.arange(2 * size.d, 3 * size.d))), persistent=False
        )

    def zero_pad(self, x):
        """[b, s, 2 d] -> [b, s, 3 d] with zeros for k."""
        padded = x.new_zeros(*x.shape[:-1], 3 * self.size.d)
        return padded.index_copy(-1, self.columns, x)

    def forward(self, x):
        """x: [b, s, d] -> [b, s, 3 d]."""
        after_a = F.linear(x, self.lora_a)
        after_b = F.conv1d(after_a.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        return self.linear(x) + self.zero_pad(after_b) * 2.0


class LoRAAttention(torch.nn.Module):
    """Attention on projections with adapters."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.attn, self.proj = LoRAQKV(size), torch.nn.Linear(size.d, size.d)

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, d = x.size()
        qkv = self.attn(x).view(b, s, self.size.heads, 3, self.size.head).permute(0, 2, 3, 1, 4)
        q, k, v = (t.reshape(b, self.size.heads, s, self.size.head) for t in qkv.split((1, 1, 1), dim=2))
        return self.proj(attend(q, k, v).transpose(1, 2).reshape(b, s, d))


class GroupedQueries(torch.nn.Module):
    """Separate projections; keys and values repeated for their queries by expand and reshape, as Llama does."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.q, self.o = (
            torch.nn.Linear(size.d, size.heads * size.head),
            torch.nn.Linear(size.heads * size.head, size.d),
        )
        self.k, self.v = (torch.nn.Linear(size.d, size.groups * size.head) for _ in range(2))

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, _ = x.size()
        h, g, d = self.size.heads, self.size.groups, self.size.head
        q = self.q(x).view(b, s, h, d).transpose(1, 2)
        k, v = (p(x).view(b, s, g, d).transpose(1, 2) for p in (self.k, self.v))
        k, v = (t[:, :, None].expand(b, g, h // g, s, d).reshape(b, h, s, d) for t in (k, v))
        return self.o(attend(q, k, v).transpose(1, 2).reshape(b, s, h * d))
