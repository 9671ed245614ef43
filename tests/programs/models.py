"""Whole models of Hugging Face with random weights, small, and their inputs.

Their mask is an input: a model that builds its own is refused by Thunder 0.2.6 (test_refused.py).
"""

from typing import NamedTuple

import pytest
import torch

SEQ, BATCH, VOCAB, WINDOW = 10, 2, 40, 4
_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": SEQ,
}
_GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": SEQ}
_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


class Model(NamedTuple):
    """A model's class and configuration by name, and how far back a token sees."""

    architecture: str
    config: str
    options: dict
    window: int = SEQ

    def make(self) -> torch.nn.Module:
        """With the same random weights each time."""
        hf = pytest.importorskip("transformers")
        torch.manual_seed(0)
        config = getattr(hf, self.config)(**self.options, use_cache=False, attn_implementation="eager")
        return getattr(hf, self.architecture)(config)

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
        """Tokens and positions [b, s], and the mask [b, 1, s, s] that is added to the scores."""
        at = torch.arange(SEQ)
        seen = (at[:, None] >= at) & (at[:, None] < at + self.window)
        mask = torch.zeros(SEQ, SEQ, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
        tokens = torch.randint(0, VOCAB, (BATCH, SEQ), generator=torch.Generator().manual_seed(1))
        return {
            "input_ids": tokens,
            "attention_mask": mask.repeat(BATCH, 1, 1, 1),
            "position_ids": at.repeat(BATCH, 1),
        }


MODELS = {
    "llama": Model("LlamaForCausalLM", "LlamaConfig", _SIZES),
    "mistral": Model("MistralForCausalLM", "MistralConfig", _SIZES | {"sliding_window": WINDOW}, WINDOW),
    "qwen2": Model("Qwen2ForCausalLM", "Qwen2Config", _SIZES),
    "gpt2": Model("GPT2LMHeadModel", "GPT2Config", _GPT2 | _DROPOUT),
    "mixtral": Model("MixtralForCausalLM", "MixtralConfig", _SIZES | {"num_local_experts": 3}),
}
