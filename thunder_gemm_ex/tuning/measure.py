"""One recorded call with one algorithm: whether it computes what ATen does and writes where it should, and its time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from thunder_gemm_ex.engines.numerics import FP16_ACCUMULATE, TF32
from thunder_gemm_ex.engines.recording import Call

GUARD = 4096  # bytes before and behind the output that no algorithm may write
_ALIGNMENT = 256  # bytes: as far as plans tell pointers apart
_PATTERN = 0x5A
_TF32_EPS = 2.0**-10
_FLUSH_BYTES = 256 << 20  # more than twice the L2 cache of an H100 (50 MB) or a B200 (126 MB)
_TOLERANCE = 32  # roundings of the largest result: algorithms differ in the order of their sums


def guarded_like(out: torch.Tensor) -> tuple[torch.Tensor, Callable[[], bool]]:
    """(a tensor laid out and aligned as `out` inside a larger buffer, a function: whether all around it is as it was)."""
    span = (1 + sum((n - 1) * s for n, s in zip(out.shape, out.stride()))) * out.element_size()
    buffer = torch.empty(span + 2 * GUARD + _ALIGNMENT, dtype=torch.uint8, device=out.device)
    buffer.fill_(_PATTERN)
    # An algorithm that was chosen for an aligned output must not be given another.
    first = GUARD + (out.data_ptr() - buffer.data_ptr() - GUARD) % _ALIGNMENT
    inside = buffer[first : first + span].view(out.dtype).as_strided(out.shape, out.stride())

    def untouched() -> bool:
        return bool((buffer[:first] == _PATTERN).all() and (buffer[first + span :] == _PATTERN).all())

    return inside, untouched


def error_bound(call: Call, exact: torch.Tensor) -> float:
    """How far from ATen's result a right one may be: roundings of the largest value."""
    eps = torch.finfo(exact.dtype).eps
    if call.flags & TF32:
        eps = _TF32_EPS
    if call.flags & FP16_ACCUMULATE:
        eps *= max(call.a.shape, default=1) ** 0.5  # at least the square root of k: roundings add up as a random walk
    return _TOLERANCE * eps * max(float(exact.abs().max()), torch.finfo(exact.dtype).tiny)


def fault_of(call: Call, algo: str, exact: torch.Tensor) -> str:
    """Why the algorithm is not to be used; "" if it is right. `exact`: ATen's result."""
    out, untouched = guarded_like(call.out)
    out.fill_(float("nan"))
    if call.bound.full(call.a, call.b, out, *call.terms, algo):
        return "refused by cublasLtMatmulAlgoCheck"
    if not untouched():
        return "wrote outside of the output"
    worst = float((out - exact).abs().max())
    return "" if worst <= error_bound(call, exact) else f"differs from ATen by {worst:.1e}"


class Clock:
    """Times of calls in microseconds, each with a cold L2 cache; on CUDA by events, so that no launch is counted."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device=device) if self.cuda else None

    def time(self, run: Callable[[], object]) -> float:
        """One call."""
        if self.flush is None:
            start = time.perf_counter()
            run()
            return (time.perf_counter() - start) * 1e6
        self.flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3

    def medians(self, runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
        """The median of each, in interleaved rounds; one more round, not counted, comes first."""
        took: dict[str, list[float]] = {name: [] for name in runs}
        for i in range(rounds + 1):
            for name, run in runs.items():
                microseconds = self.time(run)
                if i:
                    took[name].append(microseconds)
        return {name: statistics.median(times) for name, times in took.items()}
