"""torch._scaled_mm of a compiled program through the C++ engine."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.rules.test_scaled import E4M3, EXECUTORS, SCALES, fp8
from thunder_gemm_ex.engines import choose


@pytest.fixture
def everywhere(double):
    """The cublaslt engine takes CPU tensors too, over the double."""
    with choose.everywhere():
        yield double


@pytest.mark.parametrize("turned", ["neither", "a", "b"])
@pytest.mark.parametrize(("out", "bias"), [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, False)])
def test_one_call_in_the_one_layout(everywhere, out, turned, bias):
    x, w = fp8(16, 48), fp8(32, 48)
    x = x.t().contiguous().t() if turned == "a" else x
    w = w.t().contiguous().t() if turned == "b" else w
    b = torch.randn(32).to(out) if bias else None
    program = lambda x, w, sa, sb, b: torch._scaled_mm(x, w.t(), sa, sb, bias=b, out_dtype=out)  # noqa: E731
    ours = thunder.jit(program, executors=EXECUTORS)(x, w, *SCALES, b)
    exact = 2 * (x.double() @ w.double().t()) + (b.double() if bias else 0)
    eps = torch.finfo(out).eps
    torch.testing.assert_close(ours.double(), exact, rtol=4 * eps, atol=1e-4)
    last = everywhere.last()
    assert (everywhere.calls(), last["trans_a"], last["trans_b"]) == (1, 1, 0)


def test_row_wise_scales_are_a_matter_of_the_library(fresh_double):
    fresh_double.lib.double_version(120900)
    with fresh_double.opened(), choose.everywhere():
        x, w, sa, sb = fp8(32, 48), fp8(32, 48), torch.rand(32, 1) + 0.5, torch.rand(1, 32) + 0.5
        program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.bfloat16)  # noqa: E731
        ours = thunder.jit(program, executors=EXECUTORS)(x, w, sa, sb)
        exact = (x.double() @ w.double().t()) * sa.double() * sb.double()
        torch.testing.assert_close(ours.double(), exact, rtol=2e-2, atol=2e-2)
        assert fresh_double.calls() == 1


def test_what_the_library_declines_is_torchs_own_call(everywhere):
    """k that is no multiple of 16: torch's CPU call has no such rule."""
    x, w = fp8(5, 12), fp8(7, 12)
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32)  # noqa: E731
    ours = thunder.jit(program, executors=EXECUTORS)(x, w, *SCALES)
    assert x.dtype is E4M3
    torch.testing.assert_close(ours, program(x, w, *SCALES))
    assert everywhere.calls() == 0


def test_the_report_says_what_ran(everywhere):
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32)  # noqa: E731
    jfn = thunder.jit(program, executors=EXECUTORS)
    for k, engine in ((64, "cublaslt"), (12, "aten")):
        jfn(fp8(16, k), fp8(32, k), *SCALES)
        (run,) = gx.explain(jfn).rows[0].runs
        assert (run.engine, bool(run.reason)) == (engine, engine == "aten")
