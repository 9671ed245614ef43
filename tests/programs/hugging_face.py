"""Hugging Face's own blocks, with two layers' worth of random weights at most and attention in plain matmuls."""

import pytest

from tests.programs.decoders import BATCH, HEADS, SEQ, VOCAB, D, tokens

_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": D,
    "intermediate_size": 2 * D,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "max_position_embeddings": SEQ,
    "attn_implementation": "eager",
}


def transformers():
    """The package; tests without it are skipped."""
    return pytest.importorskip("transformers")


def _model(kind, **sizes):
    hf = transformers()
    config = getattr(hf, f"{kind}Config")(**_SIZES | sizes)
    return getattr(hf, f"{kind}Model")(config).eval()


def llama():
    """One layer, two key/value heads."""
    return _model("Llama", num_key_value_heads=HEADS // 2, use_cache=False)


def mistral():
    """One layer, two key/value heads, a sliding window."""
    return _model("Mistral", num_key_value_heads=HEADS // 2, use_cache=False, sliding_window=SEQ // 2)


def bert():
    """One layer with pooler."""
    return _model("Bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def ids():
    """Token ids."""
    assert tokens().shape == (BATCH, SEQ)
    return (tokens(),)
