"""Encoders as torch and its users write them, small: torch.nn's own modules, BART's heads by bmm, ViT's fused projection."""

import torch
from torch.nn import functional as F

from tests.programs.decoders import Size


class SelfAttention(torch.nn.Module):
    """torch.nn.MultiheadAttention on one tensor."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.attention = torch.nn.MultiheadAttention(size.d, size.heads, batch_first=True)

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]; the averaged weights [b, s, s] beside it."""
        return self.attention(x, x, x)


class BartAttention(torch.nn.Module):
    """BART's attention of old: heads joined with the batch for bmm, the weights of all heads shown through two views."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.q, self.k, self.v, self.out = (torch.nn.Linear(size.d, size.d) for _ in range(4))

    def heads(self, x):
        """[b, s, d] -> [b * heads, s, head]."""
        b, s, _ = x.size()
        return (
            x.view(b, s, self.size.heads, self.size.head)
            .transpose(1, 2)
            .contiguous()
            .view(b * self.size.heads, s, self.size.head)
        )

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, _ = x.size()
        q = self.heads(self.q(x) * (self.size.head) ** -0.5)
        k, v = self.heads(self.k(x)), self.heads(self.v(x))
        weights = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
        mixed = torch.bmm(weights, v).view(b, self.size.heads, s, self.size.head).transpose(1, 2)
        return self.out(mixed.reshape(b, s, self.size.d))


class VitAttention(torch.nn.Module):
    """timm's attention: one projection for q, k and v, permuted as a whole and then taken apart."""

    def __init__(self, size: Size):
        super().__init__()
        self.size = size
        self.qkv, self.proj = torch.nn.Linear(size.d, 3 * size.d), torch.nn.Linear(size.d, size.d)

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        b, s, d = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, self.size.heads, d // self.size.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * (d // self.size.heads) ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, s, d))


def encoder_layer(size: Size):
    """torch.nn.TransformerEncoderLayer without dropout."""
    return torch.nn.TransformerEncoderLayer(size.d, size.heads, 2 * size.d, dropout=0.0, batch_first=True)
