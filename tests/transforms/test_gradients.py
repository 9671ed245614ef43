"""Thunder's own function transforms over programs that the executor takes: grad, value_and_grad, vjp, traces in traces.

Thunder 0.2.6 has no vmap and no jvp: torch's dual tensors go through a compiled function, the rest is in test_refused.
"""

import pytest
import thunder
import thunder.torch as ltorch
import torch
from thunder.core.transforms import grad, value_and_grad, vjp
from thunder.executors.passes import transform_for_execution
from torch.autograd import forward_ad

import thunder_gemm_ex as gx
from tests.checks import assert_close_to_float64, decisions, flat, jit, specs
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


linear = torch.nn.functional.linear
# By name: a program of operands with these shapes, each carried out by another expression of the aten engine.
FORWARD = {
    "one call": (lambda x, w: x @ w.t(), (3, 4), (5, 4)),
    "copies": (lambda x, w: linear(x.transpose(0, 1), w), (2, 3, 4), (5, 4)),
    "a bias": (lambda x, w, b: linear(x.transpose(0, 1), w, b), (2, 3, 4), (5, 4), (5,)),
    "terms": (lambda c, a, b: torch.addmm(c, a.t(), b, alpha=0.5, beta=2.0), (4, 5), (3, 4), (3, 5)),
    "a factor": (lambda a, b: a.t() @ b * 0.5, (3, 4), (3, 5)),
    "batches": (lambda a, b: (a.transpose(1, 2) @ b.permute(0, 2, 3, 1)).transpose(1, 2), (2, 3, 4, 5), (2, 6, 4, 5)),
    "a multiply": (lambda a, b: a.t() @ b, (1, 4), (1, 5)),
    "a loop": (lambda a, b: a.transpose(1, 2) @ b.permute(0, 2, 3, 1), (2, 512, 2, 64), (2, 512, 2, 64)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_tangents_go_through_a_compiled_program(name):
    """Forward-mode AD, which refuses calls that write into a tensor: a loop over batches then is one call."""
    fn, *shapes = FORWARD[name]
    primals, tangents = ([torch.randn(shape) for shape in shapes] for _ in range(2))
    jfn = jit(fn)

    def tangent(fn, dtype):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(p.to(dtype), t.to(dtype)) for p, t in zip(primals, tangents)]
            return forward_ad.unpack_dual(fn(*duals)).tangent

    exact = tangent(fn, torch.float64)
    assert_close_to_float64(tangent(jfn, torch.float32), tangent(fn, torch.float32), exact)
    assert decisions(jfn) == ["multiply" if name == "a multiply" else "claimed"]
    if name == "a loop":
        assert [run.calls for row in gx.explain(jfn).rows for run in row.runs] == [2]
