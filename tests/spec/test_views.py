"""Composing views with contractions: what folds means the same, what cannot be stated does not fold."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.reference import evaluate
from tests.spec.test_notation import contractions
from thunder_gemm_ex.spec import Broadcast, Permute, Reshape, fold_operand, fold_result, plain


def apply(x, step):
    """What a step does to a tensor."""
    if isinstance(step, Permute):
        return x.permute(step.perm)
    if isinstance(step, Reshape):
        return x.reshape(step.shape)
    shape = [1] * len(step.shape)
    for i, d in enumerate(step.dims):
        shape[d] = step.source[i]
    return x.reshape(shape).expand(step.shape)


def _check_operand(spec, steps, source):
    folded = fold_operand(spec, "b", steps)
    assert folded is not None
    y = source
    for step in steps:
        y = apply(y, step)
    x = torch.randn(spec.shape(spec.a), dtype=torch.float64)
    torch.testing.assert_close(evaluate(folded, x, source), evaluate(spec, x, y))
    return folded


@pytest.mark.parametrize(
    ("spec", "steps", "source", "text"),
    [
        (plain([(2, 3), (3, 4)]), [Permute((1, 0))], (4, 3), "m k, n k -> m n"),
        (plain([(2, 6), (6, 4)]), [Reshape((2, 3, 4), (6, 4))], (2, 3, 4), None),
        (plain([(2, 6), (6, 4)]), [Permute((2, 0, 1)), Reshape((2, 3, 4), (6, 4))], (3, 4, 2), None),
        (plain([(2, 3), (3, 4)]), [Reshape((1, 3, 4), (3, 4))], (1, 3, 4), None),
        (plain([(2, 3), (3, 4)]), [Reshape((12,), (3, 4))], (12,), None),
        (plain([(5, 2, 3), (5, 3, 4)]), [Broadcast((3, 4), (5, 3, 4), (1, 2))], (3, 4), None),
        (plain([(5, 2, 3), (5, 3, 4)]), [Broadcast((1, 3, 4), (5, 3, 4), (0, 1, 2))], (1, 3, 4), None),
        # Grouped-query attention: k expanded over the groups of its heads, then joined with them.
        (
            plain([(2, 6, 4, 5), (2, 6, 5, 7)]),
            [
                Permute((0, 1, 3, 2)),
                Broadcast((2, 3, 5, 7), (2, 3, 2, 5, 7), (0, 1, 3, 4)),
                Reshape((2, 3, 2, 5, 7), (2, 6, 5, 7)),
            ],
            (2, 3, 7, 5),
            None,
        ),
    ],
)
def test_an_operands_views_fold(spec, steps, source, text):
    folded = _check_operand(spec, steps, torch.randn(source, dtype=torch.float64))
    assert text is None or str(folded) == text


@pytest.mark.parametrize(
    ("spec", "steps"),
    [
        # An uneven split: a label of 6 cannot give a dimension of 4.
        (plain([(2, 6), (6, 4)]), [Reshape((4, 6), (6, 4))]),
        # A sum over a broadcast label is a product by its size.
        (plain([(2, 3), (3, 4)]), [Broadcast((1, 4), (3, 4), (0, 1))]),
        # Nobody else has the label n that the broadcast made.
        (plain([(2, 3), (3, 4)]), [Broadcast((3, 1), (3, 4), (0, 1))]),
    ],
)
def test_what_labels_cannot_state_does_not_fold(spec, steps):
    assert fold_operand(spec, "b", steps) is None


@pytest.mark.parametrize(
    ("steps", "shape"),
    [
        ([Permute((1, 0))], (4, 6)),
        ([Reshape((6, 4), (2, 3, 4))], (2, 3, 4)),
        ([Reshape((6, 4), (3, 8))], None),
        ([Reshape((6, 4), (24,))], (24,)),
        ([Reshape((6, 4), (1, 6, 1, 4))], (1, 6, 1, 4)),
        ([Reshape((6, 4), (6, 2, 2)), Permute((1, 0, 2))], (2, 6, 2)),
        ([Broadcast((6, 4), (6, 1, 4), (0, 2))], (6, 1, 4)),
        ([Broadcast((6, 4), (5, 6, 4), (1, 2))], None),
    ],
)
def test_result_views_fold_where_labels_can_state_them(steps, shape):
    spec = plain([(6, 3), (3, 4)])
    folded = fold_result(spec, steps)
    if shape is None:
        # 3 x 8 cuts across m=6 and n=4 at once only where the sizes divide; a repeat is never written by a GEMM.
        assert folded is None or folded.shape(folded.out) == (3, 8)
        return
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    expected = evaluate(spec, x, y)
    for step in steps:
        expected = apply(expected, step)
    assert tuple(expected.shape) == shape
    torch.testing.assert_close(evaluate(folded, x, y), expected)


def test_a_split_refines_the_label_everywhere_and_joining_it_again_prints_as_before():
    spec = plain([(6, 3), (3, 4)])
    split = fold_result(spec, [Reshape((6, 4), (2, 3, 4))])
    assert split.shape(split.a) == (6, 3)
    assert len(split.m) == 2
    back = fold_result(split, [Reshape((2, 3, 4), (6, 4))])
    assert str(back) == str(spec)


@given(st.data(), contractions())
@settings(max_examples=300, deadline=None)
def test_random_chains_of_views_mean_the_same_folded(data, spec):
    """A chain of random permutes and reshapes under operand b: where it folds, the contraction is equal in float64."""
    shape = spec.shape(spec.b)
    steps = []
    for _ in range(data.draw(st.integers(1, 3))):
        # Built from the operand upwards: each step's output is the current shape.
        if data.draw(st.booleans()):
            perm = tuple(data.draw(st.permutations(range(len(shape)))))
            source = [0] * len(shape)
            for i, p in enumerate(perm):
                source[p] = shape[i]
            steps.insert(0, Permute(perm))
        else:
            source = data.draw(_reshapes(shape))
            steps.insert(0, Reshape(tuple(source), tuple(shape)))
        shape = tuple(source)
    folded = fold_operand(spec, "b", steps)
    if folded is None:
        return
    folded.check()
    source = torch.randn(shape, dtype=torch.float64)
    y = source
    for step in steps:
        y = apply(y, step)
    x = torch.randn(spec.shape(spec.a), dtype=torch.float64)
    torch.testing.assert_close(evaluate(folded, x, source), evaluate(spec, x, y))


@st.composite
def _reshapes(draw, shape):
    factors = [f for size in shape for f in _prime_factors(size)]
    dims = []
    while factors:
        take = draw(st.integers(1, len(factors)))
        size = 1
        for f in factors[:take]:
            size *= f
        dims.append(size)
        factors = factors[take:]
    return tuple(dims)


def _prime_factors(size):
    found, p = [], 2
    while size > 1:
        while size % p == 0:
            found.append(p)
            size //= p
        p += 1
    return found


@given(contractions())
@settings(max_examples=100, deadline=None)
def test_folding_two_views_one_by_one_is_folding_their_chain(spec):
    n = len(spec.b)
    if n < 2:
        return
    first, second = Permute((*range(1, n), 0)), Permute((n - 1, *range(n - 1)))
    both = fold_operand(spec, "b", [first, second])
    one = fold_operand(fold_operand(spec, "b", [second]), "b", [first])
    assert both == one == spec
