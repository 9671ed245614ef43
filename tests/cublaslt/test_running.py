"""Plans, threads, devices, workspace: what is made once, what is never shared, what is put back."""

import concurrent.futures
import threading

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound, run, spec_of
from thunder_gemm_ex.engines import cublaslt

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))


def stats():
    return cublaslt.cache_stats()


def test_a_plan_is_made_once_and_then_found(double):
    gemm = bound(SPEC)
    x, y, out = torch.randn(5, 7), torch.randn(7, 6), torch.empty(5, 6)
    for _ in range(5):
        gemm.run(x, y, out, None, None, 1.0, 0.0, 0)
    assert double.calls("heuristic") == 1
    assert (stats()["misses"], stats()["hits"], stats()["size"]) == (1, 4, 1)


def test_contractions_with_the_same_problem_share_a_plan(double):
    x, y, out = torch.randn(5, 7), torch.randn(7, 6), torch.empty(5, 6)
    for text in ("m k, k n -> m n", "a b, b c -> a c"):
        run(spec_of(text, (5, 7), (7, 6)), x, y, out=out)
    assert double.calls("heuristic") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"x": torch.randn(5, 9)[:, :7]},  # lda
        {"y": torch.randn(6, 7).t()},  # trans
        {"x": torch.randn(36)[1:].view(5, 7)},  # alignment
        {"dtype": torch.float64},
        {"flags": 1},
        {"flags": 2},
        {"out": torch.empty(5, 8)[:, :6]},  # ldd
    ],
    ids=["lda", "trans", "alignment", "dtype", "tf32", "reductions", "ldd"],
)
def test_the_key_of_a_plan_is_complete(double, change):
    args = {
        "x": torch.randn(5, 7),
        "y": torch.randn(7, 6),
        "out": torch.empty(5, 6),
        "flags": 0,
        "dtype": torch.float32,
    }
    for case in (args, args | change):
        x, y, out = (case[n].to(case["dtype"]) for n in ("x", "y", "out"))
        out = case["out"] if case["dtype"] is torch.float32 else out
        run(SPEC, x, y, out=out, flags=case["flags"])
        assert_right(SPEC, x, y, out)
    assert double.calls("heuristic") == 2


def test_another_workspace_limit_is_another_plan(double):
    x, y = torch.randn(5, 7), torch.randn(7, 6)
    try:
        run(SPEC, x, y)
        cublaslt.extension().set_workspace_bytes(1 << 20)
        run(SPEC, x, y)
    finally:
        cublaslt.extension().set_workspace_bytes(-1)
    assert double.calls("heuristic") == 2


def test_the_cache_is_bounded_and_counts_evictions(double):
    try:
        cublaslt.extension().set_cache_capacity(3)
        for m in range(2, 10):
            x, y, out = torch.randn(m, 7), torch.randn(7, 6), torch.empty(m, 6)
            run(spec_of("m k, k n -> m n", (m, 7), (7, 6)), x, y, out=out)
        assert (stats()["size"], stats()["evictions"]) == (3, 5)
        # The one used last is still there.
        run(spec_of("m k, k n -> m n", (9, 7), (7, 6)), x, y, out=out)
        assert stats()["hits"] == 1
    finally:
        cublaslt.extension().set_cache_capacity(1024)


def test_a_capacity_below_one_is_refused(double):
    with pytest.raises(ValueError, match="plans must be at least 1, was 0"):
        cublaslt.extension().set_cache_capacity(0)


def test_a_new_bias_needs_no_new_plan_and_never_meets_another_threads(double):
    spec = spec_of("m k, n k, n -> m n", (8, 7), (6, 7), (6,))
    gemm = bound(spec)
    x, y = torch.randn(8, 7), torch.randn(6, 7)
    base = x @ y.t()
    start = threading.Barrier(8)

    def work(i):
        bias, out = torch.full((6,), float(i)), torch.empty(8, 6)
        start.wait()
        for _ in range(200):
            gemm.run(x, y, out, bias, None, 1.0, 0.0, 0)
            if not torch.allclose(out, base + i, atol=1e-5):
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert double.calls("matmul") == 1600


def test_threads_with_different_problems_all_get_their_own(double):
    def work(m):
        spec = spec_of("m k, k n -> m n", (m, 7), (7, 6))
        for _ in range(50):
            x, y = torch.randn(m, 7), torch.randn(7, 6)
            status, out = run(spec, x, y)
            if status or not torch.allclose(out, x @ y, atol=1e-5):
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(1, 17)))


def test_the_device_is_switched_for_the_call_and_put_back(double):
    """CPU tensors are on device 0: a caller whose current device is 2 must find it so again."""
    double.lib.double_enter_device(2)
    try:
        x, y = torch.randn(5, 7), torch.randn(7, 6)
        status, out = run(SPEC, x, y)
        assert status == 0
        assert_right(SPEC, x, y, out)
        assert double.last()["device"] == 0
        assert double.lib.double_device_switches() >= 2
        # The double keeps the current device a thread: it has to be 2 again.
        double.lib.cudaSetDevice(2)
        before = double.lib.double_device_switches()
        double.lib.cudaSetDevice(2)
        assert double.lib.double_device_switches() == before
    finally:
        double.lib.double_enter_device(0)


def test_the_device_is_put_back_after_a_failure(double):
    double.lib.double_enter_device(1)
    try:
        double.fail_next("matmul", 13)
        with pytest.raises(RuntimeError):
            run(SPEC, torch.randn(5, 7), torch.randn(7, 6))
        before = double.lib.double_device_switches()
        double.lib.cudaSetDevice(1)
        assert double.lib.double_device_switches() == before
    finally:
        double.lib.double_enter_device(0)


@pytest.mark.parametrize("capturing", [0, 1])
def test_workspace_comes_from_torchs_allocator_and_reaches_the_call(double, capturing):
    double.lib.double_want_workspace(1 << 16)
    double.lib.double_capturing(capturing)
    x, y = torch.randn(5, 7), torch.randn(7, 6)
    status, out = run(SPEC, x, y)
    assert status == 0
    assert_right(SPEC, x, y, out)
    assert double.last()["workspace"] == 1 << 16


def test_use_library_puts_back_what_was_open(double_library):
    before = cublaslt.status()["library"]
    from tests.double.build import real_library

    with cublaslt.use_library(str(real_library()), str(double_library.path)):
        pass
    assert cublaslt.status()["library"] == before


@pytest.mark.parametrize(
    ("dtype", "flag", "on", "off"),
    [
        (torch.float32, "allow_tf32", cublaslt.TF32, 0),
        (torch.float16, "allow_fp16_reduced_precision_reduction", 0, cublaslt.FULL_REDUCTION),
        (torch.bfloat16, "allow_bf16_reduced_precision_reduction", 0, cublaslt.FULL_REDUCTION),
    ],
)
def test_torchs_flags_are_followed_as_they_stand(dtype, flag, on, off):
    saved = getattr(torch.backends.cuda.matmul, flag)
    try:
        setattr(torch.backends.cuda.matmul, flag, True)
        assert cublaslt.flags_from_torch(dtype) == on
        setattr(torch.backends.cuda.matmul, flag, False)
        assert cublaslt.flags_from_torch(dtype) & (on | off) == off
    finally:
        setattr(torch.backends.cuda.matmul, flag, saved)


def test_tf32_by_the_new_api_is_followed_too():
    import subprocess
    import sys

    code = (
        "import torch\nfrom thunder_gemm_ex.engines import cublaslt\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\nassert cublaslt.flags_from_torch(torch.float32) == 1\n"
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'\nassert cublaslt.flags_from_torch(torch.float32) == 0\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
