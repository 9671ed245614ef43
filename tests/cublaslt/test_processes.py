"""Threads, forked children and the end of the interpreter."""

import concurrent.futures
import os
import subprocess
import sys
import threading
import time

import torch

from tests.cublaslt.problems import bound_and_out, run, spec_of
from thunder_gemm_ex.engines import cublaslt

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))
RECORD_ONLY = 2
CPU = 1


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
