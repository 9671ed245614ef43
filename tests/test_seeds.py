"""The two programs that this project answers, as their issues want them: on CPU with numbers, in CUDA traces by name."""

import pytest
import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from tests.checks import MATMULS, all_names, assert_as_eager, backward_names, forward_names, jit, specs
from tests.lab import final_traces, names, needs_nvfuser
from thunder_gemm_ex.programs import mistral_rope, neva_g23


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_neva_on_cpu_is_one_gemm_forward_and_three_in_training(grad):
    jfn = assert_as_eager(neva_g23.program(), *neva_g23.inputs(scale=32, requires_grad=grad))
    assert forward_names(jfn) == ["gemm"]
    assert backward_names(jfn) == (["gemm"] * 2 if grad else [])


def test_nevas_specs_say_what_is_computed():
    jfn = assert_as_eager(neva_g23.program(), *neva_g23.inputs(scale=32, requires_grad=True))
    assert specs(jfn) == ["a b k, n k -> a b n", "a b k, k n -> a b n", "k j m, k j n -> n m"]
    assert [row.layout for row in gx.explain(jfn).rows] == ["NT", "NN", "TN"]


def test_nevas_weight_gradient_is_contiguous():
    x, w = neva_g23.inputs(scale=32, requires_grad=True)
    (out,) = jit(neva_g23.program())(x, w)
    out.float().sum().backward()
    assert w.grad.is_contiguous()
    assert w.grad.shape == w.shape


def test_nevas_backward_saves_the_weight_itself_not_its_transpose():
    x, w = neva_g23.inputs(scale=32, requires_grad=True)
    saved = []

    def pack(t):
        saved.append(t)
        return t

    jfn = jit(neva_g23.program())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        jfn(x, w)
    assert {t.data_ptr() for t in saved} == {x.data_ptr(), w.data_ptr()}


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_neva_in_a_cuda_trace_at_the_issues_own_shape(grad):
    def inputs(device):
        return neva_g23.inputs(device, requires_grad=grad)

    forward, backward = final_traces(neva_g23.program(), inputs, executors=gx.executors())
    assert names(forward) == ["gemm"]
    assert names(backward) == (["gemm"] * 2 if grad else [])
    assert 'gemm(x, weight, "a b k, n k -> a b n")' in forward[0].text
    assert "bf16[384, 2, 5120]" in forward[0].text


@needs_nvfuser
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_rope_in_a_cuda_trace_is_one_nvfuser_region_each_way(grad):
    def inputs(device):
        return mistral_rope.inputs(device, requires_grad=grad)

    forward, backward = final_traces(mistral_rope.rope, inputs, executors=gx.executors())
    assert names(forward) == ["nvFusion0"]
    assert names(backward) == (["nvFusion1"] if grad else [])
    assert not set(forward[0].inside) & MATMULS


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_rope_on_cpu_is_one_torch_compile_region_each_way(grad):
    inputs = mistral_rope.inputs(seq=32, requires_grad=grad)
    jfn = thunder.jit(mistral_rope.rope, executors=[gx.gemm_ex, torch_compile_ex])
    out, eager = jfn(*inputs), mistral_rope.rope(*inputs)
    assert forward_names(jfn) == ["TorchCompile0"]
    for x, y in zip(out, eager):
        assert x.stride() == y.stride()
        torch.testing.assert_close(x, y, rtol=2e-2, atol=2e-2)
    if grad:
        cotangents = [torch.randn(o.shape).to(o.dtype) for o in out[2:]]
        ours, theirs = (torch.autograd.grad(o[2:], inputs[:3], cotangents) for o in (out, eager))
        for x, y in zip(ours, theirs):
            torch.testing.assert_close(x, y, rtol=2e-2, atol=6e-2)
    assert backward_names(jfn) == (["TorchCompile1"] if grad else [])


def test_rope_with_thunders_default_executors_equals_eager():
    inputs = mistral_rope.inputs(seq=64)
    jfn = jit(mistral_rope.rope)
    for x, y in zip(jfn(*inputs), mistral_rope.rope(*inputs)):
        assert torch.equal(x, y)
        assert x.stride() == y.stride()
    assert not set(all_names(jfn)) & MATMULS


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_both_under_thunderfx(grad):
    from thunder.dynamo import thunderfx

    fn = thunderfx(neva_g23.program(), executors=gx.executors())
    x, w = neva_g23.inputs(scale=32, requires_grad=grad)
    (out,) = fn(x, w)
    torch.testing.assert_close(out, neva_g23.program()(x, w)[0])
    if grad:
        out.float().sum().backward()
        assert w.grad.is_contiguous()
    decisions = [row.decision for row in gx.explain(fn).rows]
    assert decisions == ["claimed"] * (3 if grad else 1)

    rope = thunderfx(mistral_rope.cos_sin, executors=gx.executors())
    inv, pos = mistral_rope.inputs(seq=16)[3:]
    for a, b in zip(rope(inv, pos), mistral_rope.cos_sin(inv, pos)):
        assert torch.equal(a, b)
    assert [row.decision for row in gx.explain(rope).rows] == ["multiply"]
