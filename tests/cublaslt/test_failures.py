"""Calls that fail: no leak, no half-made plan, and the next call is whole."""

import contextlib
import gc
import weakref

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound, bound_and_out, run, spec_of
from tests.double.build import real_library
from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.engines.operation import Operation

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))
RECORD_ONLY = 2
CPU = 1


@pytest.mark.parametrize("entry", ["heuristic", "check", "matmul"])
def test_a_failing_call_keeps_no_tensor_alive(double, entry):
    x, y, out = torch.randn(5, 7), torch.randn(7, 6), torch.empty(5, 6)
    refs = [weakref.ref(t) for t in (x, y, out)]
    double.fail_next(entry, 14)
    with contextlib.suppress(RuntimeError):
        bound(SPEC).run(x, y, out, None, None, 1.0, 0.0, 0)
    del x, y, out
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_a_failing_call_leaves_the_next_one_whole(double, xy):
    """Every entry point fails once, with every kind of status; afterwards everything is as if nothing had been."""
    gemm, out = bound_and_out(SPEC)
    double.lib.double_want_workspace(1 << 12)
    for entry in ("heuristic", "check", "matmul"):
        for status in (3, 7, 13, 14, 15):
            cublaslt.extension().cache_clear()
            double.fail_next(entry, status)
            with contextlib.suppress(RuntimeError):
                gemm.run(*xy, out, None, None, 1.0, 0.0, 0)
            # A problem that was declined is remembered as such until the plans are dropped.
            cublaslt.extension().cache_clear()
            out.fill_(torch.nan)
            assert gemm.run(*xy, out, None, None, 1.0, 0.0, 0) == 0
            assert_right(SPEC, *xy, out)


def test_a_loop_that_fails_half_way_says_so_and_runs_whole_again(double):
    spec = spec_of("b s h d, b t h d -> b h s t", (3, 4, 3, 5), (3, 6, 3, 5))
    x, y = torch.randn(3, 4, 3, 5), torch.randn(3, 6, 3, 5)
    double.fail_next("matmul", 13)
    with pytest.raises(RuntimeError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
        run(spec, x, y)
    assert double.calls() == 1
    status, out = run(spec, x, y)
    assert status == 0
    assert_right(spec, x, y, out)


def test_memory_that_two_outputs_share_is_refused(double):
    op = Operation(spec_of("m n, m k, n -> n k", (9, 6), (9, 5), (6,)), "bgrada")
    out = torch.empty(6, 5)
    terms = (out.view(-1)[:6], None, None, None, None)
    with pytest.raises(ValueError, match="shares memory with"):
        op.bound.full(torch.ones(9, 6), torch.ones(9, 5), out, *terms, 1.0, 0.0, 0, "")


def test_use_of_the_real_library_needs_a_device(xy):
    with cublaslt.use_library(str(real_library())), pytest.raises(ValueError, match="not on a device that"):
        bound(SPEC).run(*xy, torch.empty(5, 6), None, None, 1.0, 0.0, 0)
