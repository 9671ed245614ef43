"""The cost rule: what merges, how many calls a contraction is, and that folding is refused where it would not pay."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.test_notation import contractions
from thunder_gemm_ex.spec import Cost, coalesce, cost, parse
from thunder_gemm_ex.spec.cost import contiguous, merge


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("m k, k n -> m n", (8, 4), (4, 6), Cost(0, 0, 1, 0, 0)),
        ("a b k, n k -> a b n", (3, 8, 4), (6, 4), Cost(0, 0, 1, 0, 0)),
        ("b m k, b k n -> b m n", (3, 8, 4), (3, 4, 6), Cost(0, 0, 1, 0, 1)),
        ("b h m k, b h n k -> b h m n", (2, 3, 8, 4), (2, 3, 6, 4), Cost(0, 0, 1, 0, 1)),
        # (b, h) do not merge in [b, s, h, d]: a loop over the smaller, the larger batched.
        ("b m h k, b n h k -> b h m n", (2, 8, 3, 4), (2, 6, 3, 4), Cost(0, 0, 2, 0, 1)),
        ("b h g m k, b h n k -> b h g m n", (2, 3, 2, 8, 4), (2, 3, 6, 4), Cost(0, 0, 1, 0, 1)),
        # One projection to heads is one GEMM; written heads first it falls apart into one for each b.
        ("b s k, (h d:4) k -> b s h d", (2, 8, 6), (12, 6), Cost(0, 0, 1, 0, 0)),
        # k in two runs that do not meet in memory.
        ("m k j, k n j -> m n", (8, 2, 3), (2, 6, 3), Cost(1, 0, 1, 0, 0)),
        # The batch label is innermost everywhere: nobody has a unit stride in a matrix dimension.
        ("m k b, k n b -> m n b", (8, 4, 3), (4, 6, 3), Cost(0, 0, 1, 3, 1)),
    ],
)
def test_the_cost_of_a_contraction(text, a, b, expected):
    assert cost(parse(text).bind(a, b)) == expected


def test_to_heads_folded_into_a_projection_costs_more_than_left_alone():
    plain = cost(parse("b s k, (h d:4) k -> b s h d").bind((2, 8, 6), (12, 6)))
    folded = cost(parse("b s k, (h d:4) k -> b h s d").bind((2, 8, 6), (12, 6)))
    assert folded > plain


def test_costs_are_compared_field_by_field():
    ordered = [(0, 0, 1, 0, 0), (0, 0, 1, 0, 1), (0, 0, 1, 1, 0), (0, 0, 4, 0, 0), (0, 1, 1, 0, 0), (1, 0, 1, 0, 0)]
    ordered = [Cost(*fields) for fields in ordered]
    assert sorted(ordered, reverse=True) == list(reversed(ordered))


@pytest.mark.parametrize("order", list(itertools.permutations("bhs")))
def test_batch_labels_merge_exactly_where_their_strides_meet(order):
    """b and h merge only where every tensor has h right under b."""
    text = " ".join(order)
    spec = parse(f"{text} d, b h d t -> b h s t").bind([{"b": 2, "h": 3, "s": 5}[x] for x in order] + [4], (2, 3, 4, 7))
    strides = [contiguous(spec, dims) for dims in (spec.a, spec.b, spec.out)]
    groups = merge(spec, spec.batch, strides)
    assert len(groups) == (1 if "b h" in text else 2)


# The rule in the report ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(0, 0, 1, 0, 0), "1 call(s)"),
        (Cost(0, 0, 1, 0, 1), "1 call(s), batched"),
        (Cost(1, 2, 6, 3, 1), "6 call(s), 1 summed label(s) apart, 2 dimension(s) cut small, 3 cop(ies), batched"),
    ],
)
def test_a_cost_prints_what_it_counts_and_nothing_else(cost, said):
    assert str(cost) == said


@given(contractions())
@settings(max_examples=200, deadline=None)
def test_a_cost_counts_at_least_one_call_and_never_less_than_nothing(spec):
    found = cost(spec)
    assert found.calls >= 1
    assert min(found.split_k, found.small, found.copies, found.batches) >= 0
    assert found.calls <= spec.extent(spec.batch + spec.m + spec.n)


@given(contractions())
@settings(max_examples=200, deadline=None)
def test_a_label_split_where_nothing_separates_its_parts_costs_nothing(spec):
    assert cost(coalesce(spec)) == cost(spec)


@given(contractions(), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_copies_above_an_operand_are_added_to_its_own(spec, more):
    plain, with_more = cost(spec), cost(spec, copies=more)
    assert with_more.copies == plain.copies + more
    assert with_more > plain
