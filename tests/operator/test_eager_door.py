"""`gx.gemm` inside a program that Thunder compiles: the symbol `gemm` in the trace, with eager's values and gradients."""

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, backward_names, forward_names
from tests.operator.problems import PROBLEMS

op = torch.ops.thunder_gemm_ex.gemm


def program(problem, function=gx.gemm):
    def run(a, b, bias, c):
        return function(a, b, problem.spec, bias=bias, c=c, **problem.options)

    return run


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [gx.gemm, op, op.default], ids=["function", "operator", "overload"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_problems(problem, function, requires_grad):
    jfn = assert_as_eager(program(problem, function), *problem.tensors(requires_grad=requires_grad))
    assert forward_names(jfn).count("gemm") == 1
    assert backward_names(jfn).count("gemm") == (2 if requires_grad else 0)


def test_the_trace_shows_the_spec_as_it_was_written():
    def scores(q, k):
        return gx.gemm(q, k, "b s h d, b t h d -> b h s t", alpha=0.5)

    q, k = torch.randn(2, 3, 2, 4, requires_grad=True), torch.randn(2, 5, 2, 4, requires_grad=True)
    jfn = thunder.jit(scores, executors=gx.executors())
    jfn(q, k).sum().backward()
    forward, backward = str(thunder.last_traces(jfn)[-1]), str(thunder.last_backward_traces(jfn)[-1])
    assert 'gemm(q, k, "b s h d, b t h d -> b h s t", alpha=0.5)' in forward
    assert '"b h s t, b t h d -> b s h d", alpha=0.5)' in backward
    assert '"b s h d, b h s t -> b t h d", alpha=0.5)' in backward
    assert not {"permute", "transpose", "clone", "contiguous"} & set(all_names(jfn))


def test_the_result_is_contiguous_as_eagerly():
    out = thunder.jit(lambda a, b: gx.gemm(a, b, "m k, k n -> n m"), executors=gx.executors())(
        torch.ones(3, 4), torch.ones(4, 2)
    )
    assert out.is_contiguous()


def test_neighbours_trace_as_before():
    def mixed(a, b, w):
        return torch.relu(gx.gemm(a, b, "m k, k n -> n m")) @ w.t()

    tensors = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in [(3, 4), (4, 2), (5, 3)]]
    jfn = assert_as_eager(mixed, *tensors)
    assert forward_names(jfn).count("gemm") == 2


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_casts_all_terms(low):
    def cast(a, b, bias, c):
        with torch.autocast("cpu", low):
            return gx.gemm(a, b, "m k, n k -> n m", bias=bias, beta=2, c=c)

    a, b, bias, c = (torch.randn(s) for s in [(3, 4), (2, 4), (3,), (2, 3)])
    out = thunder.jit(cast, executors=gx.executors())(a, b, bias, c)
    assert out.dtype == low
    torch.testing.assert_close(out, cast(a, b, bias, c), rtol=2e-2, atol=2e-2)


def test_modules_train():
    class Projection(torch.nn.Linear):
        def forward(self, x):
            return gx.gemm(x, self.weight, "b s k, n k -> b s n", bias=self.bias, activation="relu")

    module, x = Projection(4, 6).double(), torch.randn(2, 3, 4, dtype=torch.float64)
    found = []
    for call in (thunder.jit(module, executors=gx.executors()), module):
        module.zero_grad()
        call(x).square().sum().backward()
        found.append([p.grad.clone() for p in module.parameters()])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a, b: gx.gemm(a, b, "m k, n k -> m n"), ValueError, "dimension 'k' of b"),
        (lambda a, b: gx.gemm(a, b, "m k, k n -> m q"), ValueError, "at character 15"),
        (lambda a, b: gx.gemm(a, b.double()), ValueError, "b is"),
        (lambda a, b: gx.gemm(a, 3), TypeError, "b must be a torch.Tensor, was int"),
        (lambda a, b: gx.gemm(a, b, activation="silu"), ValueError, "activation must be None"),
        (lambda a, b: gx.gemm(a, b, beta=1), ValueError, "beta is 1 but c is None"),
        (lambda a, b: gx.gemm(a, b, beta=1, c=b), ValueError, "c of shape (4, 2) does not broadcast"),
        (lambda a, b: gx.gemm(a, b, beta=1, c=b.double()), ValueError, "c is"),
        (lambda a, b: gx.gemm(a, b, out=a), ValueError, "out is a tensor"),
    ],
)
def test_what_is_refused(function, error, message):
    with pytest.raises(error) as caught:
        thunder.jit(function, executors=gx.executors())(torch.ones(3, 4), torch.ones(4, 2))
    assert message in str(caught.value)


def test_symbolic_sizes_are_refused():
    jfn = thunder.jit(lambda a, b: gx.gemm(a, b), executors=gx.executors(), cache="symbolic values")
    with pytest.raises(ValueError, match="a has a symbolic size"):
        jfn(torch.ones(3, 4), torch.ones(4, 2))


def test_thunderfx():
    def fn(a, b):
        return gx.gemm(a, b, "m k, n k -> n m").sin()

    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    out = thunderfx(fn, executors=gx.executors())(a, b)
    torch.testing.assert_close(out, fn(a, b))
    torch.testing.assert_close(torch.autograd.grad(out.sum(), (a, b)), torch.autograd.grad(fn(a, b).sum(), (a, b)))


def test_every_way_to_call_it_is_recorded_as_the_symbol():
    for function in (gx.gemm, op, op.default):
        assert function in gx.gemm_ex._lookasides
