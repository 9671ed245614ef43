"""Laws of the spec algebra, over random contractions: folding composes and is associative, gradients are autograd's."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.reference import evaluate
from tests.spec.test_notation import contractions
from tests.spec.test_views import _reshapes, apply
from thunder_gemm_ex.spec import Permute, Reshape, coalesce, fold_operand, fold_result, parse

TENSORS = st.sampled_from(["a", "b"])


def same(x, y):
    """The same contraction, by what it prints once splits that were undone are joined."""
    shapes = [[spec.shape(d) for _, d in spec.tensors()] for spec in (x, y)]
    return shapes[0] == shapes[1] and str(coalesce(x)) == str(coalesce(y))


@st.composite
def chains(draw, shape, *, above):
    """Steps that end in `shape`, or with `above` false begin there; each fits the one before it."""
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()) and shape:
            perm = tuple(draw(st.permutations(range(len(shape)))))
            other = tuple(shape[perm.index(i)] if above else shape[perm[i]] for i in range(len(shape)))
            step = Permute(perm)
        else:
            other = draw(_reshapes(shape))
            step = Reshape(other, shape) if above else Reshape(shape, other)
        steps = [step, *steps] if above else [*steps, step]
        shape = other
    return steps


@given(st.data(), contractions(), TENSORS)
@settings(max_examples=200, deadline=None)
def test_folding_a_chain_is_folding_its_parts_wherever_it_is_cut(data, spec, tensor):
    steps = data.draw(chains(spec.shape(getattr(spec, tensor)), above=True))
    whole = fold_operand(spec, tensor, steps)
    for cut in range(len(steps) + 1):
        below = fold_operand(spec, tensor, steps[cut:])
        parts = None if below is None else fold_operand(below, tensor, steps[:cut])
        assert (whole is None) == (parts is None)
        assert whole is None or same(whole, parts)


@given(st.data(), contractions())
@settings(max_examples=200, deadline=None)
def test_folding_a_chain_below_the_result_is_folding_its_parts_wherever_it_is_cut(data, spec):
    steps = data.draw(chains(spec.shape(spec.out), above=False))
    whole = fold_result(spec, steps)
    for cut in range(len(steps) + 1):
        first = fold_result(spec, steps[:cut])
        parts = None if first is None else fold_result(first, steps[cut:])
        assert (whole is None) == (parts is None)
        assert whole is None or same(whole, parts)


@given(st.data(), contractions())
@settings(max_examples=150, deadline=None)
def test_the_order_in_which_tensors_are_folded_does_not_matter(data, spec):
    above = {name: data.draw(chains(spec.shape(getattr(spec, name)), above=True)) for name in ("a", "b")}
    first, second = (fold_in_order(spec, above, order) for order in ("ab", "ba"))
    assert (first is None) == (second is None)
    if first is not None:
        torch.manual_seed(0)
        x, y = (torch.randn(first.shape(d), dtype=torch.float64) for d in (first.a, first.b))
        torch.testing.assert_close(evaluate(first, x, y), evaluate(second, x, y))


def fold_in_order(spec, above, order):
    """The spec with the chains above its operands folded in that order, None if one does not."""
    for name in order:
        spec = None if spec is None else fold_operand(spec, name, above[name])
    return spec


@given(st.data(), contractions())
@settings(max_examples=150, deadline=None)
def test_a_folded_result_is_the_views_of_the_result(data, spec):
    steps = data.draw(chains(spec.shape(spec.out), above=False))
    folded = fold_result(spec, steps)
    if folded is None:
        return
    folded.check()
    x, y = (torch.randn(spec.shape(d), dtype=torch.float64) for d in (spec.a, spec.b))
    expected = evaluate(spec, x, y)
    for step in steps:
        expected = apply(expected, step)
    torch.testing.assert_close(evaluate(folded, x, y), expected)


@given(contractions())
@settings(max_examples=150, deadline=None)
def test_the_gradients_of_any_contraction_are_autograds(spec):
    x, y = (torch.randn(spec.shape(d), dtype=torch.float64, requires_grad=True) for d in (spec.a, spec.b))
    out = evaluate(spec, x, y)
    g = torch.randn(out.shape, dtype=torch.float64)
    dx, dy = torch.autograd.grad(out, (x, y), g)
    for grad in (spec.grad_a(), spec.grad_b()):
        grad.check()
    torch.testing.assert_close(evaluate(spec.grad_a(), g, y), dx)
    torch.testing.assert_close(evaluate(spec.grad_b(), x, g), dy)


@given(st.data(), contractions(), TENSORS)
@settings(max_examples=150, deadline=None)
def test_the_gradient_of_a_folded_contraction_is_the_fold_of_the_gradient(data, spec, tensor):
    """Through the view's inverse: dgrad of a contraction that reads w through a view writes w's gradient itself."""
    steps = data.draw(chains(spec.shape(getattr(spec, tensor)), above=True))
    folded = fold_operand(spec, tensor, steps)
    if folded is None:
        return
    x, y = (torch.randn(folded.shape(d), dtype=torch.float64, requires_grad=True) for d in (folded.a, folded.b))
    viewed = {"a": x, "b": y}
    for step in steps:
        viewed[tensor] = apply(viewed[tensor], step)
    out = evaluate(spec, viewed["a"], viewed["b"])
    g = torch.randn(out.shape, dtype=torch.float64)
    dx, dy = torch.autograd.grad(out, (x, y), g)
    torch.testing.assert_close(evaluate(folded.grad_a(), g, y), dx)
    torch.testing.assert_close(evaluate(folded.grad_b(), x, g), dy)


@given(contractions())
@settings(max_examples=100, deadline=None)
def test_swapping_operands_twice_changes_nothing_and_once_computes_the_same(spec):
    assert spec.swap().swap() == spec
    x, y = (torch.randn(spec.shape(d), dtype=torch.float64) for d in (spec.a, spec.b))
    torch.testing.assert_close(evaluate(spec.swap(), y, x), evaluate(spec, x, y))


@given(st.data(), contractions(), TENSORS)
@settings(max_examples=150, deadline=None)
def test_what_a_folded_spec_prints_reads_back_as_the_same_contraction(data, spec, tensor):
    folded = fold_operand(spec, tensor, data.draw(chains(spec.shape(getattr(spec, tensor)), above=True)))
    if folded is None:
        return
    again = parse(str(folded)).bind(folded.shape(folded.a), folded.shape(folded.b))
    x, y = (torch.randn(folded.shape(d), dtype=torch.float64) for d in (folded.a, folded.b))
    torch.testing.assert_close(evaluate(again, x, y), evaluate(folded, x, y))
