"""One product of a real model's shape: every layout of both operands, forward and both gradients.

The floor is torch.mm on operands that already lie as they should: what a matmul costs without any transpose. On a CPU
each size is divided by 8, so that the suite ends; the shapes are meant for a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import thunder
import torch

import thunder_gemm_ex as gx
from benchmarks import cuda_peers
from benchmarks.comparison import EAGER, OURS, Comparison

# (model and layer, tokens, features out, features in), from the models' published configurations.
TABLE = (
    ("Llama-3 8B qkv", 4096, 6144, 4096),
    ("Llama-3 8B up", 4096, 14336, 4096),
    ("Llama-3 8B down", 4096, 4096, 14336),
    ("Llama-3 70B qkv", 4096, 10240, 8192),
    ("Llama-3 70B down", 4096, 8192, 28672),
    ("Mistral 7B out", 4096, 4096, 4096),
    ("GPT-3 up", 2048, 49152, 12288),
    ("Mistral 7B out in float16", 4096, 4096, 4096),  # which CuPy has, unlike bfloat16
    ("decode, 1 token", 1, 14336, 4096),
    ("decode, 8 tokens", 8, 14336, 4096),
    ("decode, 64 tokens", 64, 14336, 4096),
)
FLOOR = "mm of ready operands"
# Of what is computed without any transpose.
TARGETS = {FLOOR: 0.98}
SHRUNK = 8


def suite(device: str) -> Iterator[Comparison]:
    """For each shape the product and its two gradients, each in four layouts."""
    shrink = 1 if device == "cuda" else SHRUNK
    for name, *sizes in TABLE:
        m, n, k = (max(1, size // shrink) for size in sizes)
        for role, (rows, columns, summed) in {"fprop": (m, n, k), "dgrad": (m, k, n), "wgrad": (n, k, m)}.items():
            for layout in ("NN", "NT", "TN", "TT"):
                dtype = dtype_of(name, device)
                yield _comparison(f"{name}, {role} {layout}", layout, rows, columns, summed, device, dtype)


def dtype_of(name: str, device: str) -> torch.dtype:
    """What a row of the table is computed in."""
    if device == "cpu":
        return torch.float32
    return torch.float16 if name.endswith("float16") else torch.bfloat16


def _comparison(name: str, layout: str, m: int, n: int, k: int, device: str, dtype: torch.dtype) -> Comparison:
    scale = k**-0.5
    a = torch.randn((k, m) if layout[0] == "T" else (m, k), device=device, dtype=dtype) * scale
    b = torch.randn((n, k) if layout[1] == "T" else (k, n), device=device, dtype=dtype)
    program = functools.partial(_product, layout)
    ready = [x.t().contiguous() if flag == "T" else x for x, flag in zip((a, b), layout)]
    mode = {"mode": "max-autotune-no-cudagraphs"} if device == "cuda" else {}
    ways = {
        EAGER: program,
        "Thunder": thunder.jit(program),
        "torch.compile": torch.compile(program, **mode),
        OURS: thunder.jit(program, executors=gx.executors(), gemm_claim="all"),
    }
    calls = {way: functools.partial(lambda fn: [fn(a, b)], fn) for way, fn in ways.items()}
    calls[FLOOR] = lambda: [torch.mm(*ready)]
    if device == "cuda":
        calls |= cuda_peers.products(*(x.t() if flag == "T" else x for x, flag in zip((a, b), layout)))
    moved = (m * k + k * n + m * n) * a.element_size()
    facts = {"flops": 2.0 * m * n * k, "bytes": float(moved)}
    return Comparison(name, f"m {m}, n {n}, k {k}, {dtype}", calls, TARGETS, rounds=15, facts=facts, cold=True)


def _product(layout: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.t() if layout[0] == "T" else a) @ (b.t() if layout[1] == "T" else b)
