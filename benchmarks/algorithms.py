"""cublasLt's algorithms for one product: what `gx.tune` chooses, the heuristic's first, and the best there is.

Without a GPU it runs over the tests' double of cublasLt, which rehearses it: the times mean nothing then.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import thunder
import torch

import thunder_gemm_ex as gx
from benchmarks import shapes
from benchmarks.comparison import EAGER, OURS, Comparison
from thunder_gemm_ex.engines import recording
from thunder_gemm_ex.engines.recording import Call
from thunder_gemm_ex.tuning.tune import run_with, times_of

HEURISTIC, BEST = "heuristic", "best algorithm"
# Tuning costs at most 1 % against the heuristic, and reaches 90 % of the best algorithm's rate.
TARGETS = {HEURISTIC: 0.99, BEST: 0.9}
CANDIDATES, ROUNDS = 32, 5
SHRUNK = 64


def suite(device: str) -> Iterator[Comparison]:
    """Each shape of the table as x @ w.t(), as a model's linear layers have it."""
    with _library(device):
        for name, *sizes in shapes.TABLE:
            m, n, k = sizes if device == "cuda" else (max(1, size // SHRUNK) for size in sizes)
            yield _comparison(name, m, n, k, device, shapes.dtype_of(name, device))


def _library(device: str) -> contextlib.AbstractContextManager[None]:
    if device == "cuda":
        return contextlib.nullcontext()
    from benchmarks.engine import double_library

    return double_library()


def _comparison(name: str, m: int, n: int, k: int, device: str, dtype: torch.dtype) -> Comparison:
    x = torch.randn(m, k, device=device, dtype=dtype)
    w = torch.randn(n, k, device=device, dtype=dtype) * k**-0.5
    call = _recorded(thunder.jit(_product, executors=gx.executors(), gemm_claim="all"), x, w)
    found = times_of(call, CANDIDATES, ROUNDS)
    right = {algo: time for algo, time in found.microseconds.items() if algo in found.faults}
    ways = {HEURISTIC: found.heuristic, BEST: min(right, key=right.get), OURS: found.best()}
    calls: dict[str, Callable] = {EAGER: lambda: [_product(x, w)]}
    calls |= {way: functools.partial(_run, call, run_with(call, algo)) for way, algo in ways.items()}
    facts = {"flops": 2.0 * m * n * k, "bytes": float((m * k + k * n + m * n) * x.element_size())}
    sizes = f"m {m}, n {n}, k {k}, {dtype}, {len(right)} algorithms"
    return Comparison(name, sizes, calls, TARGETS, rounds=15, facts=facts, cold=True)


def _product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.t()


def _run(call: Call, run: Callable[[], object]) -> list[torch.Tensor]:
    made = run()
    return [made if isinstance(made, torch.Tensor) else call.out]


def _recorded(program: Callable, *args: torch.Tensor) -> Call:
    with recording.recorded() as calls:
        program(*args)
    (call,) = calls
    return call
