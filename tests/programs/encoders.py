"""Encoders as torch and its users write them, small: torch.nn's own modules, BART's heads by bmm, ViT's fused projection."""

import torch
from torch.nn import functional as F

from tests.programs.decoders import HEADS, D


class SelfAttention(torch.nn.Module):
    """torch.nn.MultiheadAttention on one tensor."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]; the averaged weights [b, s, s] beside it."""
        return self.attention(x, x, x)


class BartAttention(torch.nn.Module):
    """BART's attention of old: heads joined with the batch for bmm, the weights of all heads shown through two views."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (torch.nn.Linear(D, D) for _ in range(4))

    def heads(self, x):
        """[b, s, D] -> [b * HEADS, s, D / HEADS]."""
        b, s, _ = x.size()
        return x.view(b, s, HEADS, D // HEADS).transpose(1, 2).contiguous().view(b * HEADS, s, D // HEADS)

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, _ = x.size()
        q = self.heads(self.q(x) * (D // HEADS) ** -0.5)
        k, v = self.heads(self.k(x)), self.heads(self.v(x))
        weights = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
        mixed = torch.bmm(weights, v).view(b, HEADS, s, D // HEADS).transpose(1, 2)
        return self.out(mixed.reshape(b, s, D))


class VitAttention(torch.nn.Module):
    """timm's attention: one projection for q, k and v, permuted as a whole and then taken apart."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = torch.nn.Linear(D, 3 * D), torch.nn.Linear(D, D)

    def forward(self, x):
        """x: [b, s, D] -> [b, s, D]."""
        b, s, d = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * (d // HEADS) ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, s, d))


def encoder_layer():
    """torch.nn.TransformerEncoderLayer without dropout."""
    return torch.nn.TransformerEncoderLayer(D, HEADS, 2 * D, dropout=0.0, batch_first=True)
