"""A linear layer with what follows it in one call: bias, ReLU, GELU; and the MLP of two such layers."""

import functools
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

from benchmarks import cuda_peers
from benchmarks.comparison import EAGER, Comparison
from benchmarks.peers import candidates

# tokens, features out, features in: the MLP of Llama-3 8B and GPT-3 XL, on a CPU an eighth of each.
SIZES = ((4096, 14336, 4096), (2048, 8192, 2048))
SHRUNK = 8
AFTER: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bias": lambda x: x,
    "bias and ReLU": F.relu,
    "bias and GELU": functools.partial(F.gelu, approximate="tanh"),
}
TARGETS = {EAGER: 0.98, "Thunder": 1.0}


def suite(device: str) -> Iterator[Comparison]:
    """Each epilogue, forward and as a training step."""
    for sizes in SIZES:
        tokens, out, features = (size if device == "cuda" else size // SHRUNK for size in sizes)
        for name, after in AFTER.items():
            for trained in (False, True):
                yield _comparison(name, after, tokens, out, features, device, trained)


def _comparison(name, after, tokens: int, out: int, features: int, device: str, trained: bool) -> Comparison:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    make = functools.partial(torch.randn, device=device, dtype=dtype)
    x, w, bias = make(tokens, features), make(out, features) * features**-0.5, make(out)
    inputs = [t.requires_grad_(trained) for t in (x, w, bias)]

    def program(x, w, bias):
        return after(F.linear(x, w, bias))

    ways = candidates(program, inputs)
    if device == "cuda" and not trained:
        ways |= cuda_peers.linear(name, x, w, bias)
    what = f"linear with {name}, m {tokens}, {'training step' if trained else 'forward'}"
    return Comparison(what, f"m {tokens}, n {out}, k {features}, {dtype}", ways, TARGETS, rounds=15, cold=not trained)
