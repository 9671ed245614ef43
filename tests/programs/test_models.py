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
@pytest.mark.parametrize("name", [name for name in MODELS if name != "mixtral"])
def test_a_model_trains_as_eager(name, door):
    model = MODELS[name].make()
    parameters = list(model.parameters())
    compiled = DOORS[door](model)
    assert_all_close_to_float64(trained(compiled, parameters, config=MODELS[name]), *eager(name))
    assert "claimed" in decisions(compiled)


def test_a_mixture_of_experts_by_thunderfx():
    """Its gradients are Thunder's own: Thunder 0.2.6 loses part of the router's, with us and without."""
    ours, without = (
        trained(by_thunderfx(model, ours), list(model.parameters()), config=MODELS["mixtral"])
        for ours, model in ((ours, MODELS["mixtral"].make()) for ours in (True, False))
    )
    (logits, *gradients), (exact, *exact_gradients) = eager("mixtral")
    assert_all_close_to_float64(ours[:1], [logits], [exact])
    torch.testing.assert_close(ours, without)
    with pytest.raises(AssertionError):
        assert_all_close_to_float64(without[1:], gradients, exact_gradients)


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
@pytest.mark.parametrize("door", ["jit", "recipe"])
def test_a_mixture_of_experts_is_refused_where_its_routes_depend_on_values(door, ours):
    compiled = DOORS[door](MODELS["mixtral"].make(), ours)
    with pytest.raises(NotImplementedError, match="nonzero"):
        compiled(**MODELS["mixtral"].inputs())


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
@pytest.mark.parametrize("door", ["jit", "thunderfx"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_builds_its_mask_itself_is_refused(name, door, ours):
    compiled = DOORS[door](MODELS[name].make(), ours)
    with pytest.raises(Exception, match=r"has no attribute '__self__'|tree_flatten of type|backend=.*raised"):
        compiled(input_ids=MODELS[name].inputs()["input_ids"])
