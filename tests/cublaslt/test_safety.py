"""Streams, capture, workspace, threads, fork, interpreter exit, failures: what a call leaves behind is its result alone."""

import concurrent.futures
import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound, run, spec_of
from tests.double.build import real_library
from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.engines.operation import Operation

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))
RECORD_ONLY = 2
CPU = 1


@pytest.fixture
def xy():
    return torch.randn(5, 7), torch.randn(7, 6)


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


def bound_and_out(spec):
    return bound(spec), torch.empty(spec.shape(spec.out))


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


# Threads --------------------------------------------------------------------------------------------------------------


def test_no_lock_is_held_across_a_matmul(double, xy):
    """Eight calls that each take 50 ms are in the library at once."""
    gemm, _ = bound_and_out(SPEC)
    run(SPEC, *xy)
    double.lib.double_sleep(50_000)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = [pool.submit(gemm.run, *xy, torch.empty(5, 6), None, None, 1.0, 0.0, 0) for _ in range(8)]
        assert [x.result() for x in done] == [0] * 8
    assert double.lib.double_most_inside() == 8


def test_the_gil_is_free_during_a_matmul(double, xy):
    double.lib.double_sleep(300_000)
    gemm, out = bound_and_out(SPEC)
    thread = threading.Thread(target=gemm.run, args=(*xy, out, None, None, 1.0, 0.0, 0))
    thread.start()
    while not double.lib.double_most_inside():
        time.sleep(0.001)
    ran = sum(1 for _ in range(1000))
    assert thread.is_alive()
    assert ran == 1000
    thread.join()


def test_backward_threads_of_autograd_compute_right(double):
    """Each of torch's own threads calls with tensors of its own."""
    from thunder_gemm_ex import gemm
    from thunder_gemm_ex.engines import choose

    with choose.everywhere():
        a = torch.randn(5, 7, requires_grad=True)

        def work(i):
            b = torch.full((7, 6), float(i), requires_grad=True)
            (grad,) = torch.autograd.grad(gemm(a, b).sum(), b)
            return torch.allclose(grad, a.detach().t() @ torch.ones(5, 6), atol=1e-5)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(64)))


# Fork and exit --------------------------------------------------------------------------------------------------------


def test_a_child_finds_every_lock_open(double, xy):
    """Threads call and drop plans while the process forks; each child calls too, and ends."""
    stop = threading.Event()
    gemm, out = bound_and_out(SPEC)

    def busy():
        while not stop.is_set():
            gemm.run(*xy, torch.empty(5, 6), None, None, 1.0, 0.0, 0)
            cublaslt.extension().tuned_apply()

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                failed = 1
                try:
                    failed = gemm.run(*xy, out, None, None, 1.0, 0.0, 0) or not torch.allclose(
                        out, xy[0] @ xy[1], atol=1e-5
                    )
                finally:
                    os._exit(int(failed))
            assert _ended(child) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _ended(child, seconds=20):
    """The child's exit status; a child that hangs is ended and is -1."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


AT_EXIT = """
import threading, time, torch
from thunder_gemm_ex.engines import cublaslt
from tests.double.build import Double, real_library
double = Double({path!r})
double.lib.double_want_workspace(4096)
bound = cublaslt.bind([[0], [2]], [[2], [1]], None, [[0], [1]], [5, 6, 7])
cublaslt.extension().open_library(str(real_library()), {path!r})
def call():
    assert bound.run(torch.ones(5, 7), torch.ones(7, 6), torch.empty(5, 6), None, None, 1.0, 0.0, 0) == 0
def work():
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        call()
for _ in range(4):
    threading.Thread(target=work).start()
call()
import atexit
atexit.register(call)
"""


def test_the_interpreter_exits_with_plans_workspaces_and_threads(double_library):
    """Threads that are still calling when the main thread ends, a call at exit, plans and workspaces that nobody freed.

    Daemon threads are left out: before CPython 3.14 one that comes back from any C++ extension while the interpreter goes
    down ends the process, torch.mm's own calls included.
    """
    code = AT_EXIT.format(path=str(double_library.path))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    # With an nvcc on the path and no device, torch says so while it is imported.
    complaints = [line for line in done.stderr.splitlines() if "No CUDA runtime is found" not in line]
    assert (done.returncode, complaints) == (0, [])


# Failures -------------------------------------------------------------------------------------------------------------


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
