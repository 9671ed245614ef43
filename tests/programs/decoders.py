"""Decoders as their own projects write them, small: nanoGPT's stack, litgpt's Llama block, its LoRA attention, grouped queries."""

import torch
from torch.nn import functional as F

D, HEADS, GROUPS, HEAD, SEQ, BATCH, VOCAB = 64, 4, 2, 16, 12, 3, 40


def tokens():
    """Token ids [BATCH, SEQ]."""
    return torch.randint(0, VOCAB, (BATCH, SEQ))


def hidden():
    """Hidden states [BATCH, SEQ, D] that want a gradient."""
    return torch.randn(BATCH, SEQ, D, requires_grad=True)


def attend(q, k, v):
    """Causal attention without a fused kernel over [b, h, s, d]."""
    scores = q @ k.transpose(-2, -1) * (1.0 / q.size(-1) ** 0.5)
    mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
    return F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v


class NanoBlock(torch.nn.Module):
    """nanoGPT's Block: one projection for q, k and v, split after it; an MLP with GELU."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(D), torch.nn.LayerNorm(D)
        self.c_attn, self.c_proj = torch.nn.Linear(D, 3 * D), torch.nn.Linear(D, D)
        self.c_fc, self.mlp_proj = torch.nn.Linear(D, 4 * D), torch.nn.Linear(4 * D, D)

    def attention(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, d = x.size()
        q, k, v = self.c_attn(x).split(d, dim=2)
        q, k, v = (t.view(b, s, HEADS, d // HEADS).transpose(1, 2) for t in (q, k, v))
        return self.c_proj(attend(q, k, v).transpose(1, 2).contiguous().view(b, s, d))

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class NanoGPT(torch.nn.Module):
    """Two blocks between an embedding and a head that share one weight."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(VOCAB, D), torch.nn.Embedding(SEQ, D)
        self.h = torch.nn.ModuleList([NanoBlock(), NanoBlock()])
        self.ln_f = torch.nn.LayerNorm(D)
        self.lm_head = torch.nn.Linear(D, VOCAB, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx):
        """idx: [b, s] -> logits [b, s, VOCAB]."""
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class RMSNorm(torch.nn.Module):
    """litgpt's RMSNorm: computed in float32."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(D))

    def forward(self, x):
        """x: [..., D]."""
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def rotate(x, cos, sin):
    """Rotary embedding of [b, h, s, HEAD] by cos and sin [s, HEAD]."""
    first, second = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaBlock(torch.nn.Module):
    """litgpt's Llama block: fused qkv by groups, rope, keys and values expanded to the query heads, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = RMSNorm(), RMSNorm()
        self.attn = torch.nn.Linear(D, (HEADS + 2 * GROUPS) * HEAD, bias=False)
        self.proj = torch.nn.Linear(HEADS * HEAD, D, bias=False)
        self.fc_1, self.fc_2 = (torch.nn.Linear(D, 3 * D, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(3 * D, D, bias=False)
        angle = torch.outer(torch.arange(SEQ).float(), 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def attention(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, _ = x.size()
        per_group = HEADS // GROUPS
        qkv = self.attn(x).view(b, s, GROUPS, per_group + 2, HEAD).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((per_group, 1, 1), dim=2)
        k, v = (t.expand(b, GROUPS, per_group, s, HEAD) for t in (k, v))
        q, k, v = (t.reshape(b, HEADS, s, HEAD) for t in (q, k, v))
        y = attend(rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin), v)
        return self.proj(y.transpose(1, 2).reshape(b, s, HEADS * HEAD))

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        x = x + self.attention(self.norm_1(x))
        n = self.norm_2(x)
        return x + self.down(F.silu(self.fc_1(n)) * self.fc_2(n))


class LoRAQKV(torch.nn.Module):
    """litgpt's LoRAQKVLinear: adapters of q and v by a grouped convolution's worth of matmuls, zeros where k stands."""

    def __init__(self, r=4):
        super().__init__()
        self.linear = torch.nn.Linear(D, 3 * D)
        self.linear.weight.requires_grad_(False)
        self.lora_a = torch.nn.Parameter(torch.randn(2 * r, D) / 8)
        self.lora_b = torch.nn.Parameter(torch.randn(2 * D, r) / 8)
        # Which columns of the output the adapters have: those of q and of v.
        self.register_buffer("columns", torch.cat((torch.arange(D), torch.arange(2 * D, 3 * D))), persistent=False)

    def zero_pad(self, x):
        """[b, s, 2 D] -> [b, s, 3 D] with zeros for k."""
        padded = x.new_zeros(*x.shape[:-1], 3 * D)
        return padded.index_copy(-1, self.columns, x)

    def forward(self, x):
        """x: [b, s, D] -> [b, s, 3 D]."""
        after_a = F.linear(x, self.lora_a)
        after_b = F.conv1d(after_a.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        return self.linear(x) + self.zero_pad(after_b) * 2.0


class LoRAAttention(torch.nn.Module):
    """Attention on projections with adapters."""

    def __init__(self):
        super().__init__()
        self.attn, self.proj = LoRAQKV(), torch.nn.Linear(D, D)

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, d = x.size()
        qkv = self.attn(x).view(b, s, HEADS, 3, HEAD).permute(0, 2, 3, 1, 4)
        q, k, v = (t.reshape(b, HEADS, s, HEAD) for t in qkv.split((1, 1, 1), dim=2))
        return self.proj(attend(q, k, v).transpose(1, 2).reshape(b, s, d))


class GroupedQueries(torch.nn.Module):
    """Separate projections; keys and values repeated for their queries by expand and reshape, as Llama does."""

    def __init__(self):
        super().__init__()
        self.q, self.o = torch.nn.Linear(D, HEADS * HEAD), torch.nn.Linear(HEADS * HEAD, D)
        self.k, self.v = (torch.nn.Linear(D, GROUPS * HEAD) for _ in range(2))

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, _ = x.size()
        q = self.q(x).view(b, s, HEADS, HEAD).transpose(1, 2)
        k, v = (p(x).view(b, s, GROUPS, HEAD).transpose(1, 2) for p in (self.k, self.v))
        k, v = (
            t[:, :, None].expand(b, GROUPS, HEADS // GROUPS, s, HEAD).reshape(b, HEADS, s, HEAD) for t in (k, v)
        )
        return self.o(attend(q, k, v).transpose(1, 2).reshape(b, s, HEADS * HEAD))
