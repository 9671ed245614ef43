"""Interleaved timing, and the comparison with eager before it. Nothing here asserts how long anything takes."""

import math

import pytest
import torch

from thunder_gemm_ex.cli._check import Step, relative_error, tolerance, worst_error
from thunder_gemm_ex.cli._interleave import calls_for, interleaved, median_ratio, orders


def test_each_round_measures_every_candidate():
    counts = dict.fromkeys("abc", 0)

    def candidate(name):
        def call():
            counts[name] += 1

        return call

    rounds = list(interleaved({name: candidate(name) for name in counts}, rounds=4, seconds=1e-6))
    assert len(rounds) == 4
    assert all(list(took) == ["a", "b", "c"] and min(took.values()) > 0 for took in rounds)
    assert min(counts.values()) >= 5


def test_every_candidate_follows_every_other():
    order = []
    candidates = {name: lambda name=name: order.append(name) for name in "abc"}
    for _ in interleaved(candidates, rounds=40, seconds=0):
        order.append("|")
    rounds = "".join(order[order.index("|") - 3 :]).strip("|").split("|")
    assert all(sorted(x) == ["a", "b", "c"] for x in rounds)
    assert {x[i : i + 2] for x in rounds for i in (0, 1)} == {"ab", "ac", "ba", "bc", "ca", "cb"}


def test_the_orders_are_the_same_in_every_run():
    assert list(orders(["a", "b", "c"], 9)) == list(orders(["a", "b", "c"], 9))


def test_what_was_started_is_waited_for():
    finished = []
    list(interleaved({"a": lambda: None}, rounds=2, seconds=0, finish=lambda: finished.append(1)))
    assert len(finished) == 3


def test_a_slow_call_is_made_once():
    assert calls_for(lambda: None, 0.0, lambda: None) == 1


def test_ratios_are_taken_within_rounds():
    rounds = [{"a": 2.0, "b": 1.0}, {"a": 30.0, "b": 10.0}, {"a": 4.0, "b": 1.0}]
    assert median_ratio(rounds, "a", "b") == 3.0


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 3.0], [1.0, 2.0], 0.5),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([math.nan, 2.0], [1.0, 2.0], math.inf),
        ([], [], 0.0),
    ],
)
def test_relative_error(got, want, error):
    assert relative_error(torch.tensor(got), torch.tensor(want)) == error


def test_other_shapes_or_counts_are_wrong():
    x = torch.ones(2, 1)
    assert worst_error([x], [x.t()]) == math.inf
    assert worst_error([x], [x, x]) == math.inf


def test_tolerance_follows_the_coarsest_dtype():
    integers, half = torch.ones(1, dtype=torch.int64), torch.ones(1, dtype=torch.bfloat16)
    assert tolerance([integers, half, torch.ones(1)]) == 4 * torch.finfo(torch.bfloat16).eps


def test_a_step_without_gradients_is_a_forward_pass():
    step = Step.of(torch.sin, (torch.ones(3),))
    assert step.cotangents is None
    assert len(step.run(torch.sin)) == 1


def test_a_step_gives_outputs_then_gradients_of_inputs_and_parameters():
    linear = torch.nn.Linear(3, 2)
    step = Step.of(linear, (torch.ones(4, 3, requires_grad=True),))
    assert [list(t.shape) for t in step.run(linear)] == [[4, 2], [4, 3], [2, 3], [2]]


def test_an_output_without_gradient_gets_no_cotangent():
    def program(x):
        return x.detach() * 2, x * 3

    step = Step.of(program, (torch.ones(2, requires_grad=True),))
    assert step.cotangents[0] is None
    assert torch.equal(step.run(program)[2], 3 * step.cotangents[1])
