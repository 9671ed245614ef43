"""`gx.gemm(..., out=)`: written in whatever strides `out` has, refused where torch's functions refuse or guess."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.operator.problems import PROBLEMS


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_out_takes_the_result(problem):
    a, b, bias, c = problem.tensors()
    expected = problem.eager(a, b, bias, c)
    out = torch.full_like(expected, torch.nan)
    result = gx.gemm(a, b, problem.spec, bias=bias, c=c, out=out, **problem.options)
    assert result is out
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("spec", ["m k, n k -> m n", "m k, n k -> n m"])
def test_out_keeps_its_strides(spec):
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    whole = torch.zeros(3, 6)
    for out in (whole[:, ::2], torch.zeros(3, 3).t()):
        stride, pointer = out.stride(), out.data_ptr()
        gx.gemm(a, b, spec, out=out)
        assert (out.stride(), out.data_ptr()) == (stride, pointer)
        torch.testing.assert_close(out, gx.gemm(a, b, spec))
    assert not whole[:, 1::2].any()


@pytest.mark.parametrize("spec", ["m k, k n -> m n", "m k, k n -> n m"])
def test_out_may_be_an_operand(spec):
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    expected = gx.gemm(a, b, spec)
    assert torch.equal(gx.gemm(a, b.clone(), spec, out=a), expected)


def test_one_torch_call_writes_to_out_itself():
    a, b, out = torch.randn(3, 4), torch.randn(4, 2), torch.empty(3, 2)
    with torch.profiler.profile() as profile:
        gx.gemm(a, b, "i k, k j -> i j", out=out)
    names = {event.key for event in profile.key_averages()}
    assert "aten::mm" in names
    assert "aten::copy_" not in names


def test_out_is_the_same_under_a_transform_and_compiled():
    a, b, out = torch.randn(3, 4), torch.randn(2, 4), torch.zeros(2, 3)
    version = out._version
    torch.ops.thunder_gemm_ex.gemm_out(out, a, b, "m k, n k -> n m")
    assert out._version == version + 1
    assert torch.equal(out, gx.gemm(a, b, "m k, n k -> n m"))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def program(a, b, out):
        return gx.gemm(a, b, "m k, n k -> n m", alpha=2, out=out) + 1

    torch.testing.assert_close(program(a, b, out), 2 * (a @ b.t()).t() + 1)
    torch.testing.assert_close(out, 2 * (a @ b.t()).t())


A, B = torch.ones(2, 3), torch.ones(3, 4)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (3, TypeError, "out must be a torch.Tensor, was int"),
        (torch.ones(4, 2), ValueError, "out has shape (4, 2) and must have the output's shape (2, 4)"),
        (torch.ones(0), ValueError, "out has shape (0,) and must have the output's shape (2, 4)"),
        (torch.ones(2, 4).double(), ValueError, "out is torch.float64 on cpu and must be as a"),
        (torch.ones(2, 4, requires_grad=True), RuntimeError, "an argument requires grad"),
    ],
)
@pytest.mark.parametrize("spec", ["m k, k n -> m n", "m k, k (n u:1) -> m (n u)"])
def test_an_out_that_cannot_take_the_result_is_refused(out, error, message, spec):
    before = out.detach().clone() if isinstance(out, torch.Tensor) else out
    with pytest.raises(error) as caught:
        gx.gemm(A, B, spec, out=out)
    assert message in str(caught.value)
    assert out is before or torch.equal(out.detach(), before)


def test_nothing_is_differentiated_through_out():
    a = torch.ones(2, 3, requires_grad=True)
    for spec in ("m k, k n -> m n", "m k, k n -> n m"):
        out = torch.zeros(2, 4) if spec.endswith("m n") else torch.zeros(4, 2)
        with pytest.raises(RuntimeError, match="nothing is differentiated through out"):
            gx.gemm(a, B, spec, out=out)
        with torch.no_grad():
            torch.testing.assert_close(gx.gemm(a, B, spec, out=out), torch.full_like(out, 3))
