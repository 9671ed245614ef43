"""Parsing and printing specs."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thunder_gemm_ex.spec import Contraction, SpecError, coalesce, parse, plain, print_spec

ROUND_TRIPS = [
    ("m k, k n -> m n", (2, 3), (3, 4)),
    ("m k, n k -> m n", (2, 3), (4, 3)),
    ("a b k, n k -> a b n", (2, 3, 4), (5, 4)),
    ("b m h k, b n h k -> b h m n", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("b h m k, b k h n -> b m (h n)", (2, 3, 4, 5), (2, 5, 3, 6)),
    ("b m (h k), b n h k -> b h m n", (2, 3, 20), (2, 6, 4, 5)),
    ("b h a c k, b h n k -> b h a c n", (2, 3, 2, 4, 5), (2, 3, 6, 5)),
    ("a b k, (n u:3) k -> a b n u", (2, 3, 4), (6, 4)),
    ("k, k -> ", (4,), (4,)),
    ("1 m 1, 1 1 n -> 1 m n", (1, 4, 1), (1, 1, 5)),
]


@pytest.mark.parametrize(("text", "a", "b"), ROUND_TRIPS)
def test_a_spec_prints_as_it_was_written(text, a, b):
    assert print_spec(parse(text).bind(a, b)) == text.rstrip()


def test_a_bias_is_a_third_operand():
    spec = parse("m p k, (n u:3) k, (n u) -> m p n u").bind((2, 3, 4), (6, 4), (6,))
    assert spec.shape(spec.bias) == (6,)
    assert spec.shape(spec.out) == (2, 3, 2, 3)
    assert len(str(spec).split(",")) == 3


def test_sizes_that_one_operand_leaves_open_come_from_another():
    spec = parse("b m (h k), b n h k -> b h m n").bind((2, 3, 20), (2, 6, 4, 5))
    assert spec.shape(spec.out) == (2, 4, 3, 6)


def test_a_size_is_printed_only_where_it_cannot_be_told():
    spec = parse("b k (c n:8), b k m -> b c m n").bind((2, 3, 16), (2, 3, 5))
    assert str(spec).count(":") == 1
    reparsed = parse(str(spec)).bind((2, 3, 16), (2, 3, 5))
    assert reparsed.shape(reparsed.out) == (2, 2, 5, 8)


@pytest.mark.parametrize("label", ["k", "head_dim", "_x", "K2"])
def test_labels_are_identifiers(label):
    assert parse(f"m {label}, n {label} -> m n").a[1] == (label,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m k, k n", "must read"),
        ("m k -> m", "must read"),
        ("a, b, c, d -> a", "must read"),
        ("m k, k n -> m q", "'q'"),
        ("m m, m n -> m n", "twice in a"),
        ("m k, k n -> m m n", "twice in out"),
        ("m j k, k n -> m n", "'j' of a"),
        ("m k, k j n -> m n", "'j' of b"),
        ("m (k, k n -> m n", "not closed"),
        ("m k), k n -> m n", "unexpected ')'"),
        ("m ((k)), k n -> m n", "unexpected '('"),
        ("m k*, k n -> m n", "unexpected '*'"),
        ("m 2, 2 n -> m n", "unexpected '2'"),
        ("(m:2 k) , (k n m:3) -> m n", "two sizes"),
        ("m k, k n, q -> m n", "'q'"),
    ],
)
def test_a_bad_spec_is_refused_in_one_sentence(text, message):
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("m k*, k n -> m n", 4),
        ("m k, k n ->  m ?", 16),
        ("m k, ... n -> m n", 6),
        ("m k, k n -> m (n", 15),
        ("m k, k  n) -> m n", 10),
        ("m k, k n -> m qq", 15),
        ("mm k, k n -> mm n, m", 18),
        ("kj k, k j n -> kj n", 9),
        ("m k, k n, q -> m n", 11),
        ("m k, k (n j) -> m n", 11),
        ("(m:2 k), (k n m:3) -> m n", 17),
        ("m k, k n k -> m n", 10),
    ],
)
def test_an_error_points_at_the_character(text, at):
    with pytest.raises(SpecError, match=rf"at character {at}\b"):
        parse(text)


@pytest.mark.parametrize("value", [None, 3, b"m k, k n -> m n"])
def test_a_spec_that_is_no_string_is_refused(value):
    with pytest.raises(SpecError, match="must be a string"):
        parse(value)


@pytest.mark.parametrize(
    ("text", "a", "b", "message"),
    [
        ("m k, k n -> m n", (2, 3, 4), (4, 5), "a has shape"),
        ("m k, k n -> m n", (2, 3), (3,), "b has shape"),
        ("m k, k n -> m n", (2, 3), (4, 5), "of b"),
        ("m 1, 1 n -> m n", (2, 3), (1, 5), "of a"),
        ("m (h k), k n -> m h n", (2, 7), (3, 5), "of a"),
        ("(m p) k, k n -> m p n", (6, 3), (3, 5), "state it"),
        ("(m p:4) k, k n -> m p n", (6, 3), (3, 5), "of a"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(text, a, b, message):
    with pytest.raises(SpecError, match=message):
        parse(text).bind(a, b)


@st.composite
def contractions(draw):
    """Random contractions: atoms of every kind dealt into dimensions of every tensor, some of them joined."""
    kinds = draw(st.lists(st.sampled_from(["m", "n", "k", "batch"]), min_size=1, max_size=7))
    sizes = {i: draw(st.integers(2, 5)) for i in range(len(kinds))}
    member = {"a": ("m", "k", "batch"), "b": ("n", "k", "batch"), "out": ("m", "n", "batch")}

    def deal(name):
        atoms = draw(st.permutations([i for i, kind in enumerate(kinds) if kind in member[name]]))
        dims, rest = [], list(atoms)
        while rest:
            take = draw(st.integers(1, len(rest)))
            dims += [()] * draw(st.integers(0, 1)) + [tuple(rest[:take])]
            rest = rest[take:]
        return tuple(dims)

    return Contraction(deal("a"), deal("b"), deal("out"), sizes)


@given(contractions())
@settings(max_examples=300, deadline=None)
def test_print_then_parse_gives_the_same_contraction(spec):
    again = parse(str(spec)).bind(spec.shape(spec.a), spec.shape(spec.b))
    assert str(again) == str(spec)
    assert [again.shape(d) for _, d in again.tensors()] == [spec.shape(d) for _, d in spec.tensors()]
    assert again.flops == spec.flops


@given(contractions())
@settings(max_examples=200, deadline=None)
def test_coalescing_changes_no_shape_and_is_idempotent(spec):
    once = coalesce(spec)
    assert [once.shape(d) for _, d in once.tensors()] == [spec.shape(d) for _, d in spec.tensors()]
    assert coalesce(once) == once


def test_plain_names_what_matmul_does():
    assert str(plain([(7, 3), (3, 5)])) == "m k, k n -> m n"
    assert str(plain([(7, 3), (5, 3)], transposed_b=True)) == "m k, n k -> m n"
