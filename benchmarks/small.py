"""Small matmuls between pointwise work: a call beside a fuser's region, or part of the region (`gemm_small="small"`).

The cost rule of thunder_gemm_ex/rules/small.py is fitted to these: sums of 1 to 32, every layout, vectors and batches, on
both sides of its bounds. Where the rule is against it both of ours are the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from benchmarks.comparison import EAGER, OURS, Comparison

CALLED = 'gemm_ex, gemm_small="k1"'
# Never slower than the call it replaces; a CPU's clock is not steadier than this.
TARGETS = {CALLED: 0.98}
K = (1, 2, 3, 4, 8, 16, 32)
RESULTS = ((16, 16), (64, 64), (64, 1024), (256, 4096))
TRANSPOSED = (4, 16)  # of K, in other layouts than NN as well
LAYOUTS = {"NN": (False, False), "NT": (False, True), "TN": (True, False)}
VECTORS = ((64, 64), (256, 256), (1024, 1024), (4096, 16))
BATCHES = ((32, 4, 4, 4), (32, 16, 16, 16), (128, 8, 8, 64))


def suite(device: str) -> Iterator[Comparison]:
    """relu(2 a @ b + c), by shape."""
    for m, n in RESULTS:
        for k in K:
            for layout, flags in LAYOUTS.items():
                if layout == "NN" or k in TRANSPOSED:
                    yield _comparison(f"{m}x{n}, K={k}, {layout}", device, (m, k), (k, n), *flags)
    for n, k in VECTORS:
        yield _comparison(f"vector of {k} by {k}x{n}", device, (1, k), (k, n))
        yield _comparison(f"vector of {k} by {n}x{k} transposed", device, (1, k), (k, n), False, True)
    for batch, m, n, k in BATCHES:
        yield _comparison(f"{batch} of {m}x{n}, K={k}", device, (batch, m, k), (batch, k, n))


def _comparison(name: str, device: str, a: tuple, b: tuple, trans_a: bool = False, trans_b: bool = False) -> Comparison:
    program = _program(trans_a, trans_b)
    stored = [(*s[:-2], s[-1], s[-2]) if flag else s for s, flag in ((a, trans_a), (b, trans_b))]
    inputs = [torch.randn(s, device=device) for s in (*stored, b[-1:])]
    fusing = [gx.gemm_ex, torch_compile_ex, *thunder.get_default_executors()]
    torch._dynamo.reset()  # every program is the same function to Dynamo, which stops compiling it after a few shapes
    ways = {
        EAGER: program,
        "Thunder + torchcompile": thunder.jit(program, executors=fusing[1:]),
        CALLED: thunder.jit(program, executors=fusing),
        OURS: thunder.jit(program, executors=fusing, gemm_small="small"),
    }
    calls = {name: lambda way=way: [way(*inputs)] for name, way in ways.items()}
    return Comparison(name, f"{list(stored[0])}, {list(stored[1])}", calls, TARGETS, rounds=150)


def _program(trans_a: bool, trans_b: bool) -> Callable[..., torch.Tensor]:
    def program(a, b, c):
        a = a * 2
        return torch.relu((a.mT if trans_a else a) @ (b.mT if trans_b else b) + c)

    return program
