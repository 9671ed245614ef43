"""Hugging Face's own blocks with random weights, attention in plain matmuls, behind a forward of hidden states alone."""

import pytest
import torch

from tests.programs.decoders import Size


class Block(torch.nn.Module):
    """A decoder layer of Llama's kind, with its rotary embedding and a causal mask [1, 1, s, s] of width `window`."""

    def __init__(self, layer, rotary, size: Size, window: int):
        super().__init__()
        self.layer = layer
        at = torch.arange(size.seq)
        cos, sin = rotary(torch.empty(1), at[None])
        seen = (at[:, None] >= at) & (at[:, None] < at + window)
        mask = torch.zeros(1, 1, size.seq, size.seq).masked_fill(~seen, torch.finfo(torch.float32).min)
        for name, value in (("cos", cos), ("sin", sin), ("mask", mask)):
            self.register_buffer(name, value)

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        out = self.layer(x, attention_mask=self.mask, position_embeddings=(self.cos, self.sin))
        return out[0] if isinstance(out, tuple) else out


class Encoder(torch.nn.Module):
    """BERT's layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        """x: [b, s, d] -> [b, s, d]."""
        return self.layer(x)[0]


def _config(kind: str, size: Size, **more):
    hf = pytest.importorskip("transformers")
    return getattr(hf, f"{kind}Config")(
        vocab_size=size.vocab,
        hidden_size=size.d,
        intermediate_size=2 * size.d,
        num_hidden_layers=1,
        num_attention_heads=size.heads,
        max_position_embeddings=size.seq,
        attn_implementation="eager",
        **more,
    )


def llama(size: Size) -> Block:
    """LlamaDecoderLayer with fewer heads of keys and values."""
    config = _config("Llama", size, num_key_value_heads=size.groups)
    from transformers.models.llama import modeling_llama as hf

    return Block(hf.LlamaDecoderLayer(config, 0), hf.LlamaRotaryEmbedding(config), size, size.seq)


def mistral(size: Size) -> Block:
    """MistralDecoderLayer with a sliding window."""
    config = _config("Mistral", size, num_key_value_heads=size.groups, sliding_window=size.seq // 2)
    from transformers.models.mistral import modeling_mistral as hf

    return Block(hf.MistralDecoderLayer(config, 0), hf.MistralRotaryEmbedding(config), size, size.seq // 2)


def bert(size: Size) -> Encoder:
    """BertLayer."""
    config = _config("Bert", size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    from transformers.models.bert import modeling_bert as hf

    return Encoder(hf.BertLayer(config))


def whole_llama(size: Size) -> torch.nn.Module:
    """LlamaModel, which builds its mask itself."""
    config = _config("Llama", size, num_key_value_heads=size.groups, use_cache=False)
    from transformers import LlamaModel

    return LlamaModel(config)
