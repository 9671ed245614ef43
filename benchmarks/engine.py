"""What the cublaslt engine costs on the host besides the device's work: 8x8 operands, a library whose matmul does nothing.

The library is the tests' host double: descriptors, heuristic and plans are as with the real one, and the call returns at
once. So this runs where there is a compiler and the nvidia wheels, GPU or not.
"""

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.comparison import EAGER, OURS, Comparison
from thunder_gemm_ex.engines import choose, cublaslt

SPEC = "m k, n k -> m n"
# Of torch.matmul on a permuted view, output allocation included: the bound that must hold.
TARGETS = {EAGER: 1 / 0.75}
COMPUTE, NOTHING = 0, 1  # what the double's matmul does


class OnNothing(Comparison):
    """Checked with a library that computes, timed with one that does not."""

    def check(self) -> dict:
        """As every comparison's."""
        double().lib.double_no_op(COMPUTE)
        try:
            return super().check()
        finally:
            double().lib.double_no_op(NOTHING)


@functools.cache
def double():
    """The tests' double, compiled once a process."""
    from tests.double.build import Double, build

    return Double(build(Path(tempfile.mkdtemp())))


@contextlib.contextmanager
def no_op_library() -> Iterator[None]:
    """Within this block products of CPU tensors go to the cublaslt engine, and nothing is computed."""
    try:
        with double_library(), torch.no_grad():
            yield
    finally:
        double().reset()


@contextlib.contextmanager
def double_library() -> Iterator[None]:
    """Within this block products of CPU tensors go to the cublaslt engine over the double, which computes them."""
    from tests.double.build import real_library

    double().reset()
    with cublaslt.use_library(str(real_library()), str(double().path)), choose.everywhere():
        yield


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    """x and w of x @ w.t()."""
    return torch.randn(8, 8), torch.randn(8, 8)


def suite() -> Iterator[Comparison]:
    """What a compiled trace's `gemm` costs, output allocation included, against torch.matmul on a permuted view."""
    x, w = operands()
    run_gemm = choose.run_gemm

    def eager():
        return [torch.matmul(x, torch.permute(w, (1, 0)))]

    def engine():
        return [run_gemm(x, w, SPEC)]

    with no_op_library():
        run_gemm(x, w, SPEC)
        yield OnNothing(
            "8x8 call, the cublaslt engine's host", "[8, 8], [8, 8]", {EAGER: eager, OURS: engine}, TARGETS, rounds=400
        )
