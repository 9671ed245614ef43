"""Attention's six products, forward and backward, for every memory order of all three tensors: each one exact."""

import itertools

import numpy as np
import pytest

from tests.csrc.planner import Demands
from tests.csrc.problems import Problem, make_tensor

SIZES = {"b": 2, "h": 3, "s": 4, "t": 5, "d": 6}
NAMES = "bhstd"
# Queries are s, keys and values t. Scores and the gradient of the probabilities are one contraction, their product with
# the values and the gradient of the queries another, the gradients of keys and of values the third.
PRODUCTS = {
    "fprop qk, dgrad of p": ("bhsd", "bhtd", "bhst"),
    "fprop pv, dgrad of q": ("bhst", "bhtd", "bhsd"),
    "wgrad of k and v": ("bhst", "bhsd", "bhtd"),
}
ORDERS = list(itertools.permutations(range(4)))


def problem_of(product, orders):
    rng = np.random.default_rng(0)
    sizes = [SIZES[name] for name in NAMES]
    tensors = [
        make_tensor(rng, [[NAMES.index(x)] for x in names], sizes, order)
        for names, order in zip(PRODUCTS[product], orders)
    ]
    return Problem(sizes, *tensors)


def with_copies(planner, problem):
    """The problem with the copies that the planner asks for made, None where it asks for none."""
    tensors = {"a": problem.a, "b": problem.b, "out": problem.out}
    strides = {name: t.strides for name, t in tensors.items()}
    advice = planner.copies(problem.sizes, problem.a.dims, problem.b.dims, problem.out.dims, strides)
    if not any(advice.values()):
        return None
    made = {}
    for name, steps in advice.items():
        tensor = tensors[name]
        if steps is not None:
            values, _ = tensor.by_atoms(problem.sizes)
            extents = [int(np.prod([problem.sizes[x] for x in dim])) for dim in tensor.dims]
            memory = np.zeros(1 + sum((n - 1) * s for n, s in zip(extents, steps)))
            view = np.lib.stride_tricks.as_strided(memory, extents, [8 * s for s in steps])
            view[...] = values.reshape(extents)
            tensor = type(tensor)(tensor.dims, list(steps), memory)
        made[name] = tensor
    return Problem(problem.sizes, made["a"], made["b"], problem.out)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("out", ORDERS, ids=lambda order: "".join(map(str, order)))
def test_every_memory_order(planner, product, out):
    """All 24 x 24 orders of the operands. Without a layout of its own there is one after a copy of one operand, save where
    the output is no matrix or neither operand is: their innermost label is a batch label."""
    for a, b in itertools.product(ORDERS, repeat=2):
        problem = problem_of(product, (a, b, out))
        layout = problem.layout(planner)
        if layout.reason:
            copied = with_copies(planner, problem)
            no_matrix = [names[order[-1]] in "bh" for names, order in zip(PRODUCTS[product], (a, b, out))]
            assert (copied is None) == (no_matrix[2] or (no_matrix[0] and no_matrix[1])), (a, b, layout.reason)
            if copied is None:
                continue
            problem, layout = copied, copied.layout(planner)
        assert layout.reason == ""
        assert layout.batch * layout.calls == 6
        assert layout.calls in (1, 2)  # one call, or a loop over b: never over h
        problem.assert_right(layout)


@pytest.mark.parametrize("product", PRODUCTS)
def test_with_arrays_of_pointers_every_order_is_one_call_or_two_launches(planner, product):
    for a, b in itertools.product(ORDERS, repeat=2):
        problem = problem_of(product, (a, b, (0, 1, 2, 3)))
        layout = problem.layout(planner, demands=Demands(pointer_arrays=True))
        if not layout.reason:
            assert layout.calls * (2 if layout.pointers else 1) <= 2
            problem.assert_right(layout)
