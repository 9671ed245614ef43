"""Whole programs, forward and backward: eager's values, no cost above Thunder's own, every view that stays explained."""

import copy
from typing import Any, NamedTuple

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_all_close_to_float64, flat, layout, leaves
from tests.programs.catalogue import PROGRAMS, executors
from tests.programs.measure import Costs, costs, parameters_of, run
from tests.programs.traces import unexplained_views


class Compiled(NamedTuple):
    """A program as given, with us, and what it costs with and without us."""

    program: Any
    inputs: tuple
    ours: Any
    costs: Costs
    without: Costs


@pytest.fixture(scope="module", params=PROGRAMS)
def compiled(request) -> Compiled:
    """Each program in turn, called a few times with us and without: of this scope, so that its tests come together."""
    made = PROGRAMS[request.param]
    torch.manual_seed(0)
    program, inputs = made.make(), made.inputs()
    jitted = [made.door(program, executors=executors(ours)) for ours in (True, False)]
    for fn in jitted:
        run(fn, inputs)
        run(fn, inputs)
    return Compiled(program, inputs, jitted[0], *(costs(fn, inputs) for fn in jitted))


def outcome(fn, inputs, dtype=None) -> tuple[list, list]:
    """Outputs, and gradients of the inputs and the parameters."""
    args = leaves(inputs, dtype)
    wanted = [x for x in (*parameters_of(fn), *args) if x.requires_grad]
    outputs = flat(fn(*args))
    generator = torch.Generator().manual_seed(1)
    # For every output, in logical order: Thunder's all want a gradient, eager's may not.
    drawn = [(o, torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype)) for o in outputs]
    graded = [(o, cotangent) for o, cotangent in drawn if o.requires_grad]
    outs, cotangents = zip(*graded)
    return outputs, list(torch.autograd.grad(outs, wanted, cotangents, allow_unused=True))


@pytest.fixture(scope="module")
def outcomes(compiled) -> list[tuple[list, list]]:
    """What the program gives with us, eagerly, and eagerly in float64."""
    program, inputs = compiled.program, compiled.inputs
    exact = copy.deepcopy(program).double() if isinstance(program, torch.nn.Module) else program
    return [outcome(compiled.ours, inputs), outcome(program, inputs), outcome(exact, inputs, torch.float64)]


def test_values_and_gradients_are_eagers(outcomes):
    ours, eager, exact = outcomes
    for kind in (0, 1):
        assert_all_close_to_float64(ours[kind], eager[kind], exact[kind])


def test_outputs_leave_with_eagers_strides(outcomes):
    ours, eager, _ = outcomes
    assert [layout(x) for x in ours[0]] == [layout(x) for x in eager[0]]


def test_gradients_leave_with_their_leafs_strides(outcomes):
    ours, eager, _ = outcomes
    for x, y in zip(ours[1], eager[1], strict=True):
        # Every leaf here is contiguous. Where a whole operation runs as eager's own, so does its gradient.
        assert x is None or x.is_contiguous() or layout(x) == layout(y)


def test_every_view_that_stays_beside_a_contraction_has_its_reason(compiled):
    assert unexplained_views(compiled.ours) == []
    assert gx.explain(compiled.ours).rows


def test_never_worse_than_without_us(compiled):
    pairs = zip(Costs._fields, compiled.costs, compiled.without)
    assert {what: (ours, without) for what, ours, without in pairs if ours > without} == {}
