"""Whole models through every door of Thunder: logits and the gradient of every parameter are eager's."""

import copy
import functools
import warnings

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx

from tests.checks import assert_all_close_to_float64, decisions
from tests.programs.catalogue import executors
from tests.programs.models import MODELS


def by_jit(model, ours=True):
    return thunder.jit(model, executors=executors(ours))


def by_thunderfx(model, ours=True):
    torch._dynamo.reset()
    return thunderfx(model, executors=executors(ours))


def by_recipe(model, ours=True):
    """thunder.compile with Thunder's own recipe for these models, but for nvFuser, which takes no CPU tensors."""
    from thunder.recipes import HFTransformers

    recipe = HFTransformers()
    recipe.executor_names.remove("nvfuser")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it names the versions and models that it was made for
        return thunder.compile(model, recipe=recipe, plugins="gemm_ex" if ours else None)


DOORS = {"jit": by_jit, "thunderfx": by_thunderfx, "recipe": by_recipe}


def trained(model, parameters, dtype=torch.float32, config=None):
    """The logits, then the gradients of `parameters`."""
    logits = model(**config.inputs(dtype)).logits
    cotangent = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    return [logits.detach(), *torch.autograd.grad(logits, parameters, cotangent, allow_unused=True)]


@functools.cache
def eager(name):
    """(in float32, in float64) what the model gives eagerly."""
    model = MODELS[name].make()
    exact = copy.deepcopy(model).double()
    return (
        trained(model, list(model.parameters()), config=MODELS[name]),
        trained(exact, list(exact.parameters()), torch.float64, MODELS[name]),
    )


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_as_eager(name, door):
    model = MODELS[name].make()
    parameters = list(model.parameters())
    compiled = DOORS[door](model)
    assert_all_close_to_float64(trained(compiled, parameters, config=MODELS[name]), *eager(name))
    assert "claimed" in decisions(compiled)
