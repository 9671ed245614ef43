"""Autograd of the operator: both modes, every order, against numbers and against torch's own operations."""

import pytest
import torch
from torch.autograd import forward_ad

import thunder_gemm_ex as gx
from tests.checks import assert_close_to_float64
from tests.operator.problems import PROBLEMS, Problem

op = torch.ops.thunder_gemm_ex.gemm


def call(problem, function=op):
    """`function` on (a, b, bias, c) as the problem says, and the tensors among them that are there."""
    present = [i for i, shape in enumerate((problem.a, problem.b, problem.bias, problem.c)) if shape is not None]

    def run(*tensors):
        a, b, bias, c = (tensors[present.index(i)] if i in present else None for i in range(4))
        return function(a, b, problem.spec, bias=bias, c=c, **problem.options)

    return run


def leaves(problem, dtype=torch.float64):
    return [x for x in problem.tensors(dtype, requires_grad=True) if x is not None]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_first_derivatives_of_both_modes(problem):
    assert torch.autograd.gradcheck(
        call(problem), leaves(problem), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_second_derivatives_of_all_orders(problem):
    assert torch.autograd.gradgradcheck(
        call(problem), leaves(problem), check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_gradients_are_as_exact_as_eagers_and_laid_out_like_the_leaf(problem, dtype):
    inputs = leaves(problem, dtype)
    present = [x is not None for x in problem.tensors()]

    def eager(*tensors):
        todo = iter(tensors)
        return problem.eager(*(next(todo) if there else None for there in present))

    cotangent = torch.randn(eager(*inputs).shape, dtype=dtype)
    found = []
    for function, kind in ((call(problem), dtype), (eager, dtype), (eager, torch.float64)):
        args = [x.detach().to(kind).requires_grad_() for x in inputs]
        found.append(torch.autograd.grad(function(*args), args, cotangent.to(kind), materialize_grads=True))
    for ours, eagers, exact, leaf in zip(*found, inputs):
        assert_close_to_float64(ours, eagers, exact)
        assert ours.is_contiguous() == leaf.is_contiguous()


def test_complex_gradients_have_the_conjugate():
    a, b = (torch.randn(s, dtype=torch.complex128, requires_grad=True) for s in [(3, 2), (4, 2)])
    assert torch.autograd.gradcheck(lambda a, b: op(a, b, "m k, n k -> n m"), (a, b), check_forward_ad=True)


def test_only_wanted_gradients_are_computed():
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2)
    out = op(a, b, "m k, k n -> n m")
    assert out.grad_fn.next_functions[1][0] is None
    out.sum().backward()
    assert b.grad is None
    torch.testing.assert_close(a.grad, b.sum(1).expand(3, 4))


def test_beta_zero_gives_c_zeros_as_addmm_does():
    a, b, c = torch.randn(3, 4), torch.randn(4, 2), torch.full((3, 2), torch.nan, requires_grad=True)
    grad = torch.autograd.grad(op(a, b, "m k, k n -> m n", None, None, 1, 0, c).sum(), c)[0]
    assert torch.equal(grad, torch.zeros(3, 2))


def test_nothing_is_recorded_where_nothing_wants_it():
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2)
    assert op(a.detach(), b, "m k, k n -> n m").grad_fn is None
    with torch.no_grad():
        assert not op(a, b, "m k, k n -> n m").requires_grad
    with torch.inference_mode():
        assert op(a, b, "m k, k n -> n m").is_inference()


def test_the_eager_function_differentiates_by_the_same_rules():
    a, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    out = gx.gemm(a, b, "x y k, n k -> n x y")
    assert "Gemm" in type(out.grad_fn).__name__
    # One torch call means the spec: then autograd is that call's.
    assert all("Gemm" not in type(gx.gemm(a[0], b, "y k, n k -> y n").grad_fn).__name__ for _ in range(2))


def test_forward_mode_reaches_the_eager_functions_direct_calls():
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    for spec in ("m k, k n -> m n", "m k, k n -> n m"):
        with forward_ad.dual_level():
            dual = gx.gemm(forward_ad.make_dual(a, torch.ones_like(a)), b, spec, alpha=2)
            tangent = forward_ad.unpack_dual(dual).tangent
        torch.testing.assert_close(tangent, gx.gemm(torch.ones_like(a), b, spec, alpha=2))


def test_integers_have_values_and_no_gradients():
    a, b = torch.randint(9, (3, 4)), torch.randint(9, (4, 2))
    assert torch.equal(op(a, b, "m k, k n -> n m"), (a @ b).t())
    assert not Problem("m k, k n -> n m", (3, 4), (4, 2)).eager(a, b).requires_grad


def test_errors_are_the_same_with_gradients():
    with pytest.raises(ValueError, match="dimension 'k' of b"):
        op(torch.ones(2, 3, requires_grad=True), torch.ones(4, 5))
    with pytest.raises(ValueError, match=r"b is torch.float64 on cpu and must be as a"):
        op(torch.ones(2, 3, requires_grad=True), torch.ones(3, 5).double())
