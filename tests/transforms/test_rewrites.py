"""Transforms that rewrite a module or its traces before the executor sees them: the program still is what eager computes."""

import copy
import importlib.util

import pytest
import thunder
import torch
from thunder.transforms import MaterializationTransform
from thunder.transforms.constant_folding import ConstantFolding
from thunder.transforms.extraction_only_prologue_transform import ExtractionOnlyPrologueTransform
from thunder.transforms.prune_prologue_checks import PrunePrologueChecks
from thunder.transforms.qlora import LORATransform
from thunder.transforms.quantization import BitsAndBytesLinearQuant4bit

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, assert_close_to_float64, forward_names, specs
from tests.transforms.int8_weights import Int8Weights, quantised


class Block(torch.nn.Module):
    """Two linears between transposes."""

    def __init__(self, size=8):
        super().__init__()
        self.up = torch.nn.Linear(8, size)
        self.down = torch.nn.Linear(size, 8)

    def forward(self, x):
        """[n, s, 8] -> [s, n, 8]"""
        return self.down(torch.tanh(self.up(x.transpose(0, 1))))


FIRST = "b a k, n k, n -> a b n"


def transformed(module, *transforms):
    return thunder.jit(module, executors=gx.executors(), transforms=list(transforms))


def results(module, x):
    """Output and the gradients of the input and of what is trained."""
    x = x.detach().requires_grad_()
    out = module(x)
    wanted = [x, *(p for p in module.parameters() if p.requires_grad)]
    return out.detach(), *torch.autograd.grad(out, wanted, torch.ones_like(out), allow_unused=True)


def assert_same(jm, module, x):
    exact = results(copy.deepcopy(module).double(), x.double())
    for index, found in enumerate(zip(results(jm, x), results(module, x), exact, strict=True)):
        assert_close_to_float64(*found, str(index))


CHECKS = {
    "those of the module": PrunePrologueChecks(),
    "all": PrunePrologueChecks(prune_all_checks=True),
    "those of parameters": ExtractionOnlyPrologueTransform(),
    "those of tensors": ExtractionOnlyPrologueTransform(skip_check_on_input_tensors=True),
}


@pytest.mark.parametrize("transform", CHECKS.values(), ids=CHECKS)
def test_a_prologue_without_checks(transform):
    module = Block()
    jm = transformed(module, transform)
    for strides in (lambda x: x, lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)):
        assert_same(jm, module, strides(torch.randn(2, 3, 8)))
    assert specs(jm)[0] == FIRST


MATERIALISED = {
    "from the module's state": lambda source: MaterializationTransform.init_from_original_state_dict(source),
    "from the compiled module's state": lambda source: MaterializationTransform.init_from_transformed_state_dict(
        source
    ),
    "by the module's own initialisation": lambda source: MaterializationTransform.init_from_original_module_init(),
}


@pytest.mark.parametrize("init", MATERIALISED.values(), ids=MATERIALISED)
def test_a_module_of_the_meta_device(init):
    with torch.device("meta"):
        module = Block()
    jm = transformed(module, MaterializationTransform("cpu", init=init(Block().state_dict())))
    assert {p.device.type for p in jm.parameters()} == {"cpu"}
    eager = Block()
    eager.load_state_dict(jm.state_dict())
    assert_same(jm, eager, torch.randn(2, 3, 8))
    assert specs(jm)[0] == FIRST


def constants(x, w):
    """A factor, an operand and a matmul that are known when compiling."""
    factor = torch.tensor([2.0]) * 10 / 5
    ones = torch.ones(4, 4)
    return (x @ w.t()) * factor + (ones @ ones.t())[:3, :1]


def test_folded_constants():
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    plain, folded = (assert_as_eager(constants, x, w, transforms=t) for t in ([], [ConstantFolding()]))
    # The product of constants is there without the transform, and gone with it.
    found = [sum(name in ("gemm", "matmul") for name in forward_names(jfn)) for jfn in (plain, folded)]
    assert found == [2, 1]
    assert "m k, n k -> m n" in specs(folded)


def test_weights_kept_as_integers():
    """The transpose of a weight that is made in the trace folds; values are those of the quantised weights in eager."""
    module = Block()
    reference = copy.deepcopy(module).requires_grad_(False)
    for linear in (reference.up, reference.down):
        values, scale = quantised(linear.weight)
        linear.weight.copy_(values * scale)
        linear.bias.requires_grad_()
    jm = transformed(module, Int8Weights())
    assert {n: jm.get_parameter(f"{n}.weight").dtype for n in ("up", "down")} == dict.fromkeys(
        ("up", "down"), torch.int8
    )
    x = torch.randn(2, 3, 8)
    # The factor comes behind the product here and before it there: another order of roundings.
    for ours, eager in zip((jm(x), *_input_gradient(jm, x)), (reference(x), *_input_gradient(reference, x))):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
    # The input's own transpose stays, to make rows of it; the weights' are gone.
    assert forward_names(jm).count("permute") == 1
    assert sum(", n k" in spec for spec in specs(jm)) >= 2


def _input_gradient(module, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(module(x).square().sum(), x)


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
def test_thunders_own_quantisation_wants_bitsandbytes():
    """Which is why the test above has a transform of its own."""
    with pytest.raises(ModuleNotFoundError, match="bitsandbytes"):
        BitsAndBytesLinearQuant4bit()


def test_low_rank_terms_beside_a_frozen_weight():
    """Thunder's LORATransform writes two transposes and two products for each linear: all fold."""
    module = Block()
    jm = transformed(module, LORATransform(r=2, lora_alpha=4))
    for name in ("up", "down"):
        torch.nn.init.normal_(jm.get_parameter(f"{name}.weight.lora_b"))

    def eager(x):
        def linear(name, x):
            a, b = (jm.get_parameter(f"{name}.weight.lora_{which}").to(x.dtype) for which in "ab")
            layer = getattr(module, name)
            return (
                torch.nn.functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype)) + x @ a.t() @ b.t() * 2
            )

        return linear("down", torch.tanh(linear("up", x.transpose(0, 1))))

    x = torch.randn(2, 3, 8)
    assert_close_to_float64(jm(x), eager(x), eager(x.double()))
    # The input's own transpose, to make rows of it, which all three products read.
    assert forward_names(jm).count("permute") == 1
    assert len(specs(jm)) >= 6


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
def test_thunders_low_rank_terms_want_square_weights(ours):
    jm = thunder.jit(Block(16), executors=gx.executors() if ours else None, transforms=[LORATransform(r=2)])
    with pytest.raises(RuntimeError, match="be matrix multipiable"):
        jm(torch.randn(2, 3, 8))
