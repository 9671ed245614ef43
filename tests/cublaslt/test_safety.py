"""Streams, capture, workspace, sizes: what a call leaves behind is its result alone."""

import contextlib
import ctypes

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound_and_out, run, spec_of
from thunder_gemm_ex.engines import cublaslt

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))
RECORD_ONLY = 2
CPU = 1


@contextlib.contextmanager
def stream(address):
    """tvm-ffi's current stream of the CPU: what its own binding sets to torch's current stream for CUDA tensors."""
    from tvm_ffi import libinfo

    lib = ctypes.CDLL(libinfo.find_libtvm_ffi())
    before = ctypes.c_void_p()
    assert lib.TVMFFIEnvSetStream(CPU, 0, ctypes.c_void_p(address), ctypes.byref(before)) == 0
    try:
        yield
    finally:
        assert lib.TVMFFIEnvSetStream(CPU, 0, before, None) == 0


# Streams and workspace ------------------------------------------------------------------------------------------------


def test_work_goes_to_the_current_stream(double, xy):
    for address in (0x1000, 0x2000, 0):
        with stream(address):
            run(SPEC, *xy)
        assert double.last()["stream"] == address


def test_streams_have_workspaces_of_their_own_and_keep_them(double, xy):
    double.lib.double_want_workspace(1 << 12)
    for address in (0x3000, 0x4000, 0x3000, 0x4000):
        with stream(address):
            run(SPEC, *xy)
    at = [problem["workspace_at"] for problem in double.problems()]
    assert at[0] == at[2] != at[1] == at[3]
    assert 0 not in at


def test_a_larger_workspace_replaces_a_smaller_one(double, xy):
    with stream(0x5000):
        for size in (1 << 12, 1 << 14, 1 << 13):
            double.lib.double_want_workspace(size)
            cublaslt.extension().cache_clear()
            run(SPEC, *xy)
    sizes = [problem["workspace"] for problem in double.problems()]
    at = [problem["workspace_at"] for problem in double.problems()]
    assert sizes == [1 << 12, 1 << 14, 1 << 13]
    assert at[1] == at[2]


def test_no_workspace_is_asked_for_where_none_is_wanted(double, xy):
    run(SPEC, *xy)
    assert (double.last()["workspace"], double.last()["workspace_at"]) == (0, 0)


@pytest.mark.parametrize(("limit", "status"), [(1 << 12, 1), (1 << 13, 0), (None, 0)])
def test_the_limit_can_be_set(double, xy, limit, status):
    double.lib.double_want_workspace(1 << 13)
    try:
        cublaslt.set_workspace_limit(limit)
        assert run(SPEC, *xy)[0] == status
    finally:
        cublaslt.set_workspace_limit(None)


def test_a_negative_limit_is_refused(double):
    with pytest.raises(ValueError, match="size must be None or a number of bytes from 0, was -5"):
        cublaslt.set_workspace_limit(-5)


# Capture --------------------------------------------------------------------------------------------------------------


def test_a_captured_call_takes_memory_of_the_graphs_own_pool(double, xy):
    """Fresh from the allocator, which gives it from the pool of the graph, and never kept for calls outside."""
    double.lib.double_want_workspace(1 << 12)
    with stream(0x6000):
        run(SPEC, *xy)
        kept = double.last()["workspace_at"]
        double.lib.double_capturing(1)
        run(SPEC, *xy)
        assert double.last()["workspace_at"] != kept
        double.lib.double_capturing(0)
        run(SPEC, *xy)
        assert double.last()["workspace_at"] == kept


@pytest.mark.parametrize("b", [3, 4])
def test_a_captured_call_takes_no_array_of_pointers(fresh_double, b):
    """A graph would read the host's addresses again when it is replayed: it gets the loop instead, and later calls not."""
    fresh_double.lib.double_version(130000)
    spec = spec_of("b h m k, h b n k -> b h m n", (b, 8, 5, 7), (8, b, 6, 7))
    x, y = torch.randn(b, 8, 5, 7), torch.randn(8, b, 6, 7)
    gemm, out = bound_and_out(spec)
    with fresh_double.opened():
        for capturing, calls in ((0, 1), (1, b), (1, b), (0, 1)):
            fresh_double.lib.double_capturing(capturing)
            before, copies = fresh_double.calls(), fresh_double.calls("copy")
            out.fill_(torch.nan)
            assert gemm.run(x, y, out, None, None, 1.0, 0.0, 0) == 0
            assert fresh_double.calls() - before == calls
            assert fresh_double.calls("copy") - copies == (0 if capturing else 1)
            assert_right(spec, x, y, out)


@pytest.mark.parametrize("version", [120804, 130000])
def test_arrays_of_pointers_come_with_cublaslt_13(fresh_double, version):
    fresh_double.lib.double_version(version)
    spec = spec_of("b h m k, h b n k -> b h m n", (3, 8, 5, 7), (8, 3, 6, 7))
    x, y, c = torch.randn(3, 8, 5, 7), torch.randn(8, 3, 6, 7), torch.randn(3, 8, 5, 6)
    with fresh_double.opened():
        assert cublaslt.status()["pointer_array_batches"] == (version == 130000)
        status, out = run(spec, x, y, c=c, alpha=0.5, beta=2.0)
        assert status == 0
        assert_right(spec, x, y, out, c=c, alpha=0.5, beta=2.0)
        assert (fresh_double.calls(), fresh_double.last()["batch"]) == ((1, 24) if version == 130000 else (3, 8))
        assert fresh_double.last()["pointers"] == (version == 130000)


def test_addresses_that_cannot_be_copied_are_a_sentence(fresh_double):
    fresh_double.lib.double_version(130000)
    spec = spec_of("b h m k, h b n k -> b h m n", (3, 8, 5, 7), (8, 3, 6, 7))
    with fresh_double.opened():
        fresh_double.fail_next("copy", 700)
        with pytest.raises(RuntimeError, match="cudaMemcpyAsync of 768 bytes of matrix addresses failed"):
            run(spec, torch.randn(3, 8, 5, 7), torch.randn(8, 3, 6, 7))


# Sizes beyond int32 ---------------------------------------------------------------------------------------------------


def test_more_rows_than_int32_are_two_calls_at_64_bit_offsets(double):
    """Memory that is never touched: the double records what it is told and computes nothing."""
    double.lib.double_no_op(RECORD_ONLY)
    m = (1 << 31) + 6
    x, w = torch.empty(m, 1, dtype=torch.half), torch.randn(1, 1).half()
    spec = spec_of("m k, k n -> m n", (m, 1), (1, 1))
    assert run(spec, x, w, out=torch.empty(m, 1, dtype=torch.half))[0] == 0
    assert sum(p["rows"] * p["cols"] for p in double.problems()) == m
    assert max(max(p["rows"], p["cols"]) for p in double.problems()) < 1 << 31
