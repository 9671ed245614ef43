"""Thunder's own function transforms over programs that the executor takes: grad, value_and_grad, vjp, traces in traces.

Thunder 0.2.6 has no vmap and no jvp; torch's around a compiled function are in test_refused.
"""

import pytest
import thunder
import thunder.torch as ltorch
import torch
from thunder.core.transforms import grad, value_and_grad, vjp
from thunder.executors.passes import transform_for_execution

import thunder_gemm_ex as gx
from tests.checks import assert_close_to_float64, flat, specs
from tests.lab import computations, names


def program(x, w):
    return torch.tanh(x @ w.t()) @ w


def traced(x, w):
    """`program` in Thunder's operations: `thunder.trace` runs a function as it is, without an interpreter."""
    return ltorch.matmul(ltorch.tanh(ltorch.matmul(x, ltorch.permute(w, (1, 0)))), w)


def pulled_back(x, w, g):
    """The value of `traced` and its gradients for the cotangent `g`."""
    return vjp(traced)((x, w), g)


def operands():
    return torch.randn(2, 3, 4), torch.randn(5, 4)


def eager(x, w, cotangent=None):
    """The value and gradients of `program`."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    out = program(x, w)
    cotangent = torch.ones_like(out) if cotangent is None else cotangent
    return out.detach(), *torch.autograd.grad(out, (x, w), cotangent)


def assert_same(ours, args):
    exact = eager(*(x.double() for x in args))
    for found in zip(ours, eager(*args)[-len(ours) :], exact[-len(ours) :], strict=True):
        assert_close_to_float64(*found)


def executed(trace, *args):
    """What a trace computes once our executor and torch's have it, and the names of what that is."""
    executors = [gx.gemm_ex, thunder.pytorch_executor, thunder.extend.get_executor("python")]
    final = transform_for_execution(trace, executors_list=executors)
    return flat(final.python_callable()(*args)), names(computations(final))


def test_grad_of_a_compiled_function():
    x, w = (t.requires_grad_() for t in operands())
    jfn = grad(thunder.jit(program, executors=gx.executors()))
    assert_same(jfn(x, w), (x, w))
    # The first product and all four gradients, in one trace; nobody asks for the value.
    assert len(specs(jfn)) == 5


def test_grad_of_a_compiled_module():
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5))
    jm = grad(thunder.jit(module, executors=gx.executors()))
    x = torch.randn(2, 3, 4)
    ours = jm(x)
    gradients = torch.autograd.grad(module(x.requires_grad_()).sum(), [x, *module.parameters()])
    # Thunder's order is its own: by shape, all of which differ.
    for mine, eagers in zip(*(sorted(found, key=lambda g: tuple(g.shape)) for found in (ours, gradients)), strict=True):
        torch.testing.assert_close(mine, eagers)
    assert "k j m, k j n -> m n" in specs(jm)


@pytest.mark.parametrize("cotangent", [False, True], ids=["ones", "given"])
def test_a_trace_of_a_gradient(cotangent):
    args = operands()
    g = torch.randn(2, 3, 4)
    if cotangent:
        trace = thunder.trace()(pulled_back, *args, g)
        ours, found = executed(trace, *args, g)
        exact = eager(*(t.double() for t in (*args, g)))
        for each in zip(ours, eager(*args, g), exact, strict=True):
            assert_close_to_float64(*each)
    else:
        trace = thunder.trace()(value_and_grad(traced), *args)
        ours, found = executed(trace, *args)
        assert_same(ours, args)
    assert found.count("gemm") == 6
    assert "matmul" not in found


def test_a_trace_inlined_into_another():
    def outer(x, w):
        return ltorch.mul(thunder.trace(inline_trace=True)(traced, x, w), 2.0)

    args = operands()
    ours, found = executed(thunder.trace()(outer, *args), *args)
    assert_close_to_float64(ours[0], program(*args) * 2, program(*(t.double() for t in args)) * 2)
    assert "gemm" in found


def test_a_trace_beside_another_is_not_part_of_it():
    inside = []

    def outer(x, w):
        inside.append(thunder.trace(inline_trace=False, rename_proxies=False)(traced, x, w))
        return ltorch.matmul(x, ltorch.permute(w, (1, 0)))

    args = operands()
    trace = thunder.trace()(outer, *args)
    assert executed(trace, *args)[1] == ["gemm"]
    ours, _ = executed(inside[0], *args)
    assert_close_to_float64(ours[0], program(*args), program(*(t.double() for t in args)))
