"""What a call costs besides arithmetic: 8x8 operands, x @ w.t()."""

from collections.abc import Iterator

import thunder
import torch

import thunder_gemm_ex as gx
from benchmarks import engine as cublaslt_engine
from benchmarks.comparison import EAGER, OURS, Comparison
from thunder_gemm_ex.engines.choose import run_gemm

# Not slower than what each stands for; around a compiled trace Thunder puts two context managers, ours or not.
OP_TARGETS, TRACE_TARGETS = {EAGER: 1.0}, {"Thunder": 1.0}


def suite(device: str) -> Iterator[Comparison]:
    """What a trace's `gemm` calls, the eager op with its checks, and a compiled trace, against matmul on a permuted view."""
    x, w = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)

    def eager():
        return [torch.matmul(x, torch.permute(w, (1, 0)))]

    def op():
        return [gx.gemm(x, w, "m k, n k -> m n")]

    def mm():
        return [torch.mm(x, w.t())]

    def engine():
        return [run_gemm(x, w, "m k, n k -> m n")]

    yield Comparison(
        "8x8 call, the aten engine", "[8, 8], [8, 8]", {EAGER: eager, OURS: engine}, OP_TARGETS, rounds=200
    )
    yield Comparison(
        "8x8 call, gx.gemm", "[8, 8], [8, 8]", {EAGER: eager, "torch.mm": mm, OURS: op}, OP_TARGETS, rounds=200
    )
    yield from cublaslt_engine.suite()
    yield _outer(device)
    ours, thunders = trace_call(x, w, gx.executors()), trace_call(x, w, None)
    yield Comparison(
        "8x8 call, a compiled trace",
        "[8, 8], [8, 8]",
        {EAGER: eager, "Thunder": thunders, OURS: ours},
        TRACE_TARGETS,
        rounds=200,
    )


def _outer(device: str) -> Comparison:
    """A K=1 product through the eager op: a multiply, where matmul calls BLAS."""
    a, b = torch.randn(64, 1, device=device), torch.randn(1, 4096, device=device)
    calls = {EAGER: lambda: [torch.matmul(a, b)], OURS: lambda: [gx.gemm(a, b, "m k, k n -> m n")]}
    return Comparison("gx.gemm, K=1", "[64, 1], [1, 4096]", calls, {EAGER: 1.4}, rounds=200)


def trace_call(x: torch.Tensor, w: torch.Tensor, executors):
    """The compiled computation itself, without Thunder's prologue, which checks the inputs at every call."""
    jfn = thunder.jit(lambda x, w: torch.matmul(x, torch.permute(w, (1, 0))), executors=executors)
    jfn(x, w)
    computation = thunder.last_traces(jfn)[-1].python_callable()

    def call():
        out = computation(x, w)
        return [out] if isinstance(out, torch.Tensor) else list(out)

    return call
