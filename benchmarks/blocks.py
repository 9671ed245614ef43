"""Whole blocks as their own projects write them, forward and as a training step, against their peers.

The models are those that the tests compile (tests/programs/decoders.py): two of nanoGPT's blocks between an embedding and
a head, a Llama block with rotary positions and grouped queries, attention with LoRA adapters.
"""

from collections.abc import Iterator

import torch

from benchmarks.comparison import Comparison
from benchmarks.peers import candidates
from benchmarks.programs import TARGETS

NAMES = {"nanoGPT, two blocks": "NanoGPT", "Llama block, GQA": "LlamaBlock", "attention with LoRA": "LoRAAttention"}
# d, heads, groups, sequence, batch
SIZES = {"cpu": (256, 8, 4, 128, 2), "cuda": (4096, 32, 8, 2048, 2)}


def suite(device: str) -> Iterator[Comparison]:
    """Two comparisons for each block."""
    for name in NAMES:
        for trained in (False, True):
            yield comparison(name, device, trained)


def comparison(name: str, device: str, trained: bool) -> Comparison:
    """One block; its parameters, and the states that it is given, want gradients or not."""
    program, inputs = block(name, device, trained)
    what = f"{name}, {'training step' if trained else 'forward'}"
    return Comparison(what, f"d, heads, groups, s, b: {SIZES[device]}", candidates(program, inputs), TARGETS, rounds=15)


def block(name: str, device: str, trained: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """(module, its inputs); on a GPU in bfloat16."""
    from tests.programs import decoders

    size = decoders.Size(*SIZES[device])
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    module = getattr(decoders, NAMES[name])(size).to(device, dtype)
    if not trained:
        module.requires_grad_(False)
    inputs = size.tokens() if name.startswith("nanoGPT") else size.hidden()
    return module, tuple(_on(x, device, dtype, trained) for x in inputs)


def _on(x: torch.Tensor, device: str, dtype: torch.dtype, trained: bool) -> torch.Tensor:
    if not x.is_floating_point():
        return x.to(device)
    return x.detach().to(device, dtype).requires_grad_(trained)
