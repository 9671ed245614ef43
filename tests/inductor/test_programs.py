"""The shared programs through torch.compile with the pass: values, gradients and strides are eager's, with fewer views."""

import pytest
import torch
from torch._inductor import config

from tests.checks import assert_close_to_float64, flat, layout, leaves
from tests.inductor.graphs import GEMM, count_views
from thunder_gemm_ex.inductor import InductorPass, inductor_pass
from thunder_gemm_ex.programs import load

SIZES = {
    "neva_g23": {"scale": 216},
    "attention_bshd": {"b": 2, "s": 5, "h": 3, "d": 4},
    "lora_linear": {"b": 2, "s": 5, "d": 16},
    "moe_bmm": {"e": 3, "tokens": 5, "d": 8, "f": 6},
    "mlp_gelu": {"b": 2, "s": 5, "d": 16},
}


class Counting(InductorPass):
    """The pass, and how many views each graph had before and after it, and how many products became gemm."""

    def __init__(self):
        self.before, self.after, self.gemms = 0, 0, 0

    def __call__(self, graph):
        self.before += count_views(graph)
        super().__call__(graph)
        self.after += count_views(graph)
        self.gemms += sum(node.target is GEMM for node in graph.nodes)


def results(call, inputs, grad):
    """(outputs, gradients) of a call on fresh leaves."""
    outs = flat(call(*inputs))
    wanted = [x for x in inputs if x.requires_grad]
    if not grad:
        return outs, []
    generator = torch.Generator().manual_seed(1)
    used = [o for o in outs if o.requires_grad]
    cotangents = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype) for o in used]
    return outs, torch.autograd.grad(used, wanted, cotangents)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("hook", ["post_grad_custom_pre_pass", "joint_custom_post_pass"])
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("name", SIZES)
def test_programs(name, grad, hook):
    module = load(name)
    sizes = {"d": SIZES[name]["d"]} if name in ("lora_linear", "mlp_gelu") else {}
    program = module.program(**sizes)
    inputs = module.inputs(**SIZES[name], requires_grad=grad)
    counting = Counting()
    with config.patch({hook: counting, "force_disable_caches": True}), torch.set_grad_enabled(grad):
        ours = results(torch.compile(program), leaves(inputs), grad)
        eager = results(program, leaves(inputs), grad)
        wide = program.double() if isinstance(program, torch.nn.Module) else program
        exact = results(wide, leaves(inputs, torch.float64), grad)
    for kind in (0, 1):
        assert len(ours[kind]) == len(eager[kind])
        for x, y, z in zip(ours[kind], eager[kind], exact[kind]):
            assert_close_to_float64(x, y, z)
    assert [layout(x) for x in ours[0]] == [layout(x) for x in eager[0]]
    assert counting.gemms > 0
    if grad and hook == "post_grad_custom_pre_pass":
        # The partition has already decided to keep views for the backward: only the joint graph can still do without.
        assert counting.after <= counting.before
    else:
        assert counting.after < counting.before


@pytest.mark.parametrize("grad", [False, True], ids=["forward", "training"])
def test_mistral_rope(grad):
    """In bfloat16 Inductor's fused regions round elsewhere than eager: the pass must not change a bit of what they give."""
    module, counting = load("mistral_rope"), Counting()
    inputs, found = module.inputs(seq=3, requires_grad=grad), []
    for hook in (None, counting):
        torch._dynamo.reset()
        with config.patch({"joint_custom_post_pass": hook, "force_disable_caches": True}):
            found.append(results(torch.compile(module.program()), leaves(inputs), grad))
    assert all(torch.equal(x, y) for kind in (0, 1) for x, y in zip(found[0][kind], found[1][kind]))
    assert counting.gemms == 1
    assert counting.after < counting.before


def test_training_keeps_a_permuted_operand_as_it_is_stored():
    """In the joint graph the transposed copy is never made, so the backward cannot hold on to it."""

    def program(x, w):
        return x.t().contiguous().mm(w).sin()

    saved = []
    for hook in (None, inductor_pass):
        x, w = torch.randn(8, 6, requires_grad=True), torch.randn(8, 5, requires_grad=True)
        with config.patch({"joint_custom_post_pass": hook, "force_disable_caches": True}):
            torch._dynamo.reset()
            out = torch.compile(program)(x, w)
        saved.append([t for t in out.grad_fn.saved_tensors if t.shape in ((6, 8), (8, 6))])
        found = torch.autograd.grad(out.sum(), (x, w))
        torch.testing.assert_close(found, torch.autograd.grad(program(x, w).sum(), (x, w)))
    assert all(t.data_ptr() == x.data_ptr() for t in saved[1])


def test_the_option_of_torch_compile():
    x, w = torch.randn(3, 4), torch.randn(5, 4)
    counting = Counting()
    options = {"post_grad_custom_pre_pass": counting}
    with config.patch(force_disable_caches=True):
        out = torch.compile(lambda x, w: torch.relu(x @ w.t()), options=options)(x, w)
    torch.testing.assert_close(out, torch.relu(x @ w.t()))
    assert counting.gemms == 1
