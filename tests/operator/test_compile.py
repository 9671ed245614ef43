"""torch.compile, torch.export and AOTInductor: one call in the graph, whatever the sizes, forward and backward."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import thunder_gemm_ex as gx
from tests.operator.problems import Problem

GEMM = torch.ops.thunder_gemm_ex.gemm.default


def scores(q, k, bias):
    return gx.gemm(q, k, "b s h d, b t h d -> b h s t", alpha=0.5, bias=bias, activation="gelu")


def score_inputs(b=2, s=3, t=5, h=2, d=4):
    return [torch.randn(x, requires_grad=True) for x in [(b, s, h, d), (b, t, h, d), (t,)]]


class Projection(torch.nn.Module):
    """Two products of one weight, one of them through a view of the result."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.bias = torch.nn.Parameter(torch.randn(6))

    def forward(self, x):
        first = gx.gemm(x, self.weight, "b s k, n k -> n b s", alpha=0.5)
        return first + gx.gemm(x, self.weight, "b s k, n k -> b s n", bias=self.bias, activation="relu").permute(
            2, 0, 1
        )


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def captured(function, *args):
    """(outputs, the operators of the forward and of the backward graph) of `function` compiled as one graph."""
    graphs = []

    def backend(graph, inputs):
        graphs.append([n.target for n in graph.graph.nodes if n.op == "call_function"])
        return graph.forward

    compiler = aot_autograd(fw_compiler=backend, bw_compiler=backend)
    out = torch.compile(function, fullgraph=True, backend=compiler)(*args)
    out.sum().backward()
    return out, graphs


def test_forward_and_backward_are_gemms_in_the_graph():
    inputs = score_inputs()
    out, (forward, backward) = captured(scores, *inputs)
    torch.testing.assert_close(out, scores(*inputs))
    assert forward.count(GEMM) == 1
    assert backward.count(GEMM) == 2
    # The specs carry the layouts: not one view or copy stands beside a product.
    assert not any("permute" in str(op) or "transpose" in str(op) or "clone" in str(op) for op in forward + backward)


def test_without_gradients_the_activation_stays_in_the_call():
    inputs = [x.detach() for x in score_inputs()]
    graph = torch.export.export(_Scores(), tuple(inputs)).run_decompositions({}).graph
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [GEMM]


class _Scores(torch.nn.Module):
    def forward(self, q, k, bias):
        return scores(q, k, bias)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor(dynamic):
    compiled = torch.compile(scores, fullgraph=True, dynamic=dynamic)
    for sizes in ({}, {"b": 3, "s": 4, "t": 7, "h": 3, "d": 8})[: 1 + dynamic]:
        inputs = score_inputs(**sizes)
        with torch._dynamo.config.patch(error_on_recompile=True):
            out = compiled(*inputs)
        expected = scores(*inputs)
        torch.testing.assert_close(out, expected)
        assert out.stride() == expected.stride()
        found = [torch.autograd.grad(x.square().sum(), inputs) for x in (out, expected)]
        torch.testing.assert_close(*found)


def test_symbols_that_must_agree_are_guarded():
    compiled = torch.compile(lambda a, b: gx.gemm(a, b, "m k, n k -> n m"), dynamic=True)
    a, b = torch.randn(3, 4), torch.randn(5, 4)
    torch.testing.assert_close(compiled(a, b), (a @ b.t()).t())
    with pytest.raises(Exception, match="dimension 'k' of b"):
        compiled(torch.randn(3, 6), torch.randn(5, 7))


def test_joined_dimensions_of_symbolic_size():
    problem = Problem("b s k, (h d:4) k -> b h s d", (2, 3, 5), (8, 5))
    compiled = torch.compile(
        lambda a, b: gx.gemm(a, b, problem.spec), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for a, b in (((2, 3, 5), (8, 5)), ((4, 2, 3), (12, 3))):
        x, y = torch.randn(a, requires_grad=True), torch.randn(b, requires_grad=True)
        with torch._dynamo.config.patch(error_on_recompile=True):
            out = compiled(x, y)
        torch.testing.assert_close(out, problem.eager(x, y))
        found = [torch.autograd.grad(z.sin().sum(), (x, y)) for z in (out, problem.eager(x, y))]
        torch.testing.assert_close(*found)


def test_autocast_in_a_compiled_function():
    def program(a, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return gx.gemm(a, b, "m k, n k -> n m")

    a, b = torch.randn(3, 4), torch.randn(2, 4)
    out = torch.compile(program, fullgraph=True, backend="aot_eager")(a, b)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, program(a, b))


def test_transforms_in_a_compiled_function():
    a, b = torch.randn(5, 3, 4), torch.randn(2, 4)

    def program(a):
        return torch.func.vmap(torch.func.grad(lambda a: gx.gemm(a, b, "m k, n k -> n m").sin().sum()))(a)

    torch.testing.assert_close(torch.compile(program, fullgraph=True, backend="aot_eager")(a), program(a))


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_a_size_left_open(strict):
    module, x = Projection(), torch.randn(2, 5, 4)
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(module, (x,), dynamic_shapes={"x": {0: batch}}, strict=strict)
    assert [n.target for n in exported.graph.nodes].count(GEMM) == 2
    for size in (2, 7):
        y = torch.randn(size, 5, 4)
        torch.testing.assert_close(exported.module()(y), module(y))


def test_an_aotinductor_package(tmp_path):
    module, x = Projection(), torch.randn(2, 5, 4)
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        exported = torch.export.export(module, (x,), dynamic_shapes={"x": {0: batch}})
        package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
        loaded = torch._inductor.aoti_load_package(package)
        for size in (2, 7):
            y = torch.randn(size, 5, 4)
            torch.testing.assert_close(loaded(y), module(y))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_module_trains_compiled_as_it_does_eagerly(checkpointing):
    module, x = Projection(), torch.randn(3, 5, 4)

    def loss(x):
        if checkpointing:
            return torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False).square().mean()
        return module(x).square().mean()

    found = [
        torch.autograd.grad(f(x), list(module.parameters())) for f in (torch.compile(loss, backend="aot_eager"), loss)
    ]
    torch.testing.assert_close(*found)
