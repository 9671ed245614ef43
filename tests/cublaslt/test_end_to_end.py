"""Compiled programs and gx.gemm through the C++ engine: the whole path a CUDA tensor takes, on the host double."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, forward_names, jit
from thunder_gemm_ex.engines import choose
from thunder_gemm_ex.programs import attention_bshd, moe_bmm, neva_g23


@pytest.fixture
def everywhere(double):
    """The cublaslt engine takes CPU tensors too, over the double."""
    with choose.everywhere():
        yield double


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_neva_is_three_calls(everywhere, grad):
    x, w = (t.detach().float().requires_grad_(grad) for t in neva_g23.inputs(scale=108))
    jfn = jit(neva_g23.program())
    (out,) = jfn(x, w)
    torch.testing.assert_close(out, x @ w.t())
    assert everywhere.calls() == 1
    if grad:
        g = torch.randn_like(out)
        ours = torch.autograd.grad(out, (x, w), g)
        eager = torch.autograd.grad(x @ w.t(), (x, w), g)
        for a, b in zip(ours, eager):
            torch.testing.assert_close(a, b)
        assert everywhere.calls() == 3
    assert forward_names(jfn) == ["gemm"]


SMALL = {
    "attention": (attention_bshd.attention, lambda: attention_bshd.inputs(b=2, s=8, h=3, d=4, requires_grad=True)),
    "moe": (moe_bmm.experts, lambda: moe_bmm.inputs(e=2, tokens=4, d=6, f=8, requires_grad=True)),
}


@pytest.mark.parametrize(("fn", "inputs"), SMALL.values(), ids=SMALL)
def test_programs_forward_and_backward(everywhere, fn, inputs):
    assert_as_eager(fn, *inputs())
    assert everywhere.calls() >= 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_eager_op_takes_every_term(everywhere, dtype):
    a, b = torch.randn(2, 5, 7).to(dtype), torch.randn(6, 7).to(dtype)
    bias, c = torch.randn(6).to(dtype), torch.randn(2, 5, 6).to(dtype)
    out = gx.gemm(a, b, "b m k, n k -> b m n", alpha=0.5, beta=2, c=c, bias=bias, activation="relu")
    exact = torch.relu(0.5 * (a.double() @ b.double().t()) + 2 * c.double() + bias.double())
    torch.testing.assert_close(out.double(), exact, rtol=2e-2 if dtype.itemsize == 2 else 1e-5, atol=2e-2)
    assert everywhere.calls() == 1


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64], ids=str)
def test_what_the_library_does_not_compute_goes_to_aten(everywhere, dtype):
    a, b = torch.ones(2, 3).to(dtype), torch.ones(3, 4).to(dtype)
    assert torch.equal(gx.gemm(a, b), a @ b)
    assert everywhere.calls() == 0
    assert "not among the types" in choose.site("m k, k n -> m n").decision_for(a, b).reason


def test_a_declined_layout_goes_to_aten_and_says_so(everywhere):
    a, b = torch.randn(5, 7, 3), torch.randn(7, 6, 3)
    out = gx.gemm(a, b, "m k b, k n b -> m n b")
    torch.testing.assert_close(out, torch.einsum("mkb,knb->mnb", a, b))
    assert everywhere.calls() == 0
    decision = choose.site("m k b, k n b -> m n b").decision_for(a, b)
    assert decision.engine == "aten"
    assert "neither m nor n" in decision.reason


def test_empty_tensors_go_to_aten(everywhere):
    out = gx.gemm(torch.ones(2, 0), torch.ones(0, 3))
    assert torch.equal(out, torch.zeros(2, 3))


def test_negative_views_in_a_compiled_program_go_to_aten(everywhere):
    imag = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    assert imag.is_neg()
    out = choose.run_gemm(imag, torch.ones(5, 4), "m k, n k -> m n")
    torch.testing.assert_close(out, imag @ torch.ones(4, 5))
    assert everywhere.calls() == 0


def test_gradients_of_the_eager_op_are_right(everywhere):
    a, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (5, 4)))
    assert torch.autograd.gradcheck(lambda a, b: gx.gemm(a, b, "m k, n k -> n m"), (a, b))


def test_a_failure_of_the_library_reaches_the_user(everywhere):
    everywhere.fail_next("matmul", 13)
    with pytest.raises(RuntimeError, match="cublasLtMatmul returned CUBLAS_STATUS_EXECUTION_FAILED"):
        gx.gemm(torch.ones(2, 3), torch.ones(3, 4))


def test_the_decision_names_the_engine(everywhere):
    decision = choose.site("m k, n k -> m n").decision_for(torch.ones(2, 3), torch.ones(4, 3))
    assert decision.engine == "cublaslt"


@pytest.mark.parametrize(
    ("spec", "shape", "beta"),
    [("m k, n k, n -> m n", (4,), 1), ("m k, n k, m n -> m n", (2, 4), 1), ("m k, n k, m n -> m n", (2, 4), 0.5)],
)
@pytest.mark.parametrize("alpha", [1, 0.5])
def test_what_a_trace_adds_is_a_bias_or_c(everywhere, spec, shape, beta, alpha):
    a, b, bias = torch.randn(2, 3), torch.randn(4, 3), torch.randn(shape)
    out = choose.run_gemm(a, b, spec, bias, alpha, beta)
    torch.testing.assert_close(out, alpha * (a @ b.t()) + beta * bias)
    assert everywhere.calls() == 1


def test_a_factor_without_anything_added_scales_nothing_else(everywhere):
    """It once became the factor of a C that there is not, which the engine refuses."""
    assert_as_eager(lambda x, w: (x @ w.t()) * 0.5, torch.randn(4, 3), torch.randn(5, 3))
    assert everywhere.calls() == 1
