"""The planner as plain C++: every layout it gives is carried out on flat memory and compared with the exact result."""

import itertools

import numpy as np
import pytest

from tests.csrc.problems import Problem, Tensor, fewest_calls, make_tensor, random_problem

SIZES = {"b": 2, "h": 3, "s": 4, "t": 5, "d": 6}
NAMES = "bhstd"
ATTENTION = {"qk": ("bhsd", "bhtd", "bhst"), "pv": ("bhst", "bhtd", "bhsd"), "dk": ("bhst", "bhsd", "bhtd")}


def attention(rng, kind, orders):
    """One of attention's products with its three tensors in the given memory orders."""
    sizes = [SIZES[name] for name in NAMES]
    tensors = [
        make_tensor(rng, [[NAMES.index(x)] for x in names], sizes, order)
        for names, order in zip(ATTENTION[kind], orders)
    ]
    return Problem(sizes, *tensors)


@pytest.mark.parametrize("out", list(itertools.permutations(range(4))), ids=str)
def test_every_memory_order_of_attention(planner, out):
    """All 24 x 24 orders of the operands: exact, or declined with a reason, and at most a loop over b."""
    rng = np.random.default_rng(0)
    for a, b in itertools.product(itertools.permutations(range(4)), repeat=2):
        problem = attention(rng, "qk", (a, b, out))
        layout = problem.layout(planner)
        if layout.reason:
            continue
        assert layout.batch * layout.calls == 6
        assert layout.calls in (1, 2)
        problem.assert_right(layout)


BHSD, BSHD = (0, 1, 2, 3), (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("kind", "orders", "calls"),
    [
        ("qk", (BHSD, BHSD, BHSD), 1),
        ("qk", (BSHD, BSHD, BHSD), 2),
        ("pv", (BHSD, BHSD, BHSD), 1),
        ("pv", (BHSD, BSHD, BSHD), 2),
        ("dk", (BHSD, BSHD, BSHD), 2),
    ],
)
def test_what_attention_costs(planner, kind, orders, calls):
    problem = attention(np.random.default_rng(0), kind, orders)
    layout = problem.layout(planner)
    assert (layout.reason, layout.calls, layout.batch) == ("", calls, 6 // calls)
    problem.assert_right(layout)


@pytest.mark.parametrize("terms", [{}, {"bias": True}, {"c": True}, {"bias": True, "c": True}], ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_random_contractions_are_exact(planner, seed, terms):
    """300 contractions: strided, padded, expanded, joined, with sizes of 1; some planned, each planned one exact."""
    rng = np.random.default_rng([seed, *map(ord, str(terms))])
    planned = 0
    for _ in range(300):
        problem = random_problem(rng, **terms)
        layout = problem.layout(planner)
        if not layout.reason:
            problem.assert_right(layout)
            planned += 1
    assert planned > 30


@pytest.mark.parametrize("terms", [{}, {"bias": True}, {"c": True}], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_declined_only_where_no_layout_exists_and_calls_are_fewest(planner, seed, terms):
    """Against a search over all ways to share the labels out between matrix, batch and loop."""
    rng = np.random.default_rng([seed, 7, *map(ord, str(terms))])
    for _ in range(120):
        problem = random_problem(rng, **terms)
        layout = problem.layout(planner)
        assert (None if layout.reason else layout.calls) == fewest_calls(problem), problem


def plan(planner, sizes, a, b, out, strides, bias=None):
    return planner.plan(sizes, a, b, out, strides, bias)


M, N, K = [0], [1], [2]
PLAIN = {"a": (7, 1), "b": (6, 1), "out": (6, 1)}


@pytest.mark.parametrize(
    ("strides", "view", "first_is_b"),
    [
        ({}, "NN", 1),
        ({"b": (1, 7)}, "NT", 1),
        ({"a": (1, 5)}, "TN", 1),
        ({"a": (1, 5), "b": (1, 7)}, "TT", 1),
        ({"out": (1, 5)}, "NN", 0),
        ({"out": (1, 5), "b": (1, 7)}, "NT", 0),
        ({"out": (1, 5), "a": (1, 5)}, "TN", 0),
    ],
)
def test_the_view_is_pytorchs_whatever_the_output_is(planner, strides, view, first_is_b):
    layout = plan(planner, [5, 6, 7], [M, K], [K, N], [M, N], PLAIN | strides)
    assert (layout.view, layout.first_is_b) == (view, first_is_b)
    assert (layout.rows, layout.cols) == ((6, 5) if first_is_b else (5, 6))


@pytest.mark.parametrize(
    ("sizes", "strides", "ld"),
    [
        ((1, 6, 7), {"a": (99, 1)}, {"second": 7}),  # one row of a: its row stride means nothing
        ((5, 1, 7), {"b": (1, 99), "out": (1, 99)}, {"first": 7}),  # one column of b
        ((5, 6, 1), {"a": (1, 99), "b": (99, 1)}, {"first": 6, "second": 5}),  # k is 1
        ((1, 1, 1), {"a": (0, 0), "b": (0, 0), "out": (0, 0)}, {"first": 1, "second": 1}),
    ],
)
def test_a_leading_dimension_that_means_nothing_is_repaired(planner, sizes, strides, ld):
    layout = plan(planner, sizes, [M, K], [K, N], [M, N], PLAIN | strides)
    assert layout.reason == ""
    assert {name: getattr(layout, name).ld for name in ld} == ld


@pytest.mark.parametrize(
    ("sizes", "strides", "reason"),
    [
        ((5, 6, 7), {"a": (6, 1)}, "a is not a matrix"),  # rows overlap
        ((5, 6, 7), {"a": (0, 1)}, "a is not a matrix"),  # expanded
        ((5, 6, 7), {"b": (14, 2)}, "b is not a matrix"),  # no side is contiguous
        ((5, 6, 7), {"out": (0, 1)}, "elements of the output overlap"),
        ((5, 6, 7), {"out": (5, 1)}, "elements of the output overlap"),
        ((5, 6, 7), {"out": (12, 2)}, "neither m nor n"),
        ((5, 6, 7), {"c": (1, 5)}, "c is not a matrix in the output's order"),
        ((5, 6, 7), {"a": (-7, 1)}, "a stride is negative"),
        ((5, 0, 7), {}, "size 0"),
        ((5, 6, 1 << 31), {"a": (1 << 31, 1)}, "k is beyond int32"),
        ((1 << 61, 6, 7), {}, "spans more than an address space"),
    ],
)
def test_declined_with_the_reason(planner, sizes, strides, reason):
    assert reason in plan(planner, sizes, [M, K], [K, N], [M, N], PLAIN | strides).reason


@pytest.mark.parametrize(
    ("a", "b", "out", "bias", "reason"),
    [
        ([[0], [2]], [[1]], [[0], [1]], None, "in one operand only"),
        ([[0]], [[1]], [[0], [1], [2]], None, "in no operand"),
        ([[0], [2]], [[2], [1]], [[0], [1]], [[2]], "in the bias and not in the output"),
    ],
)
def test_labels_that_no_gemm_knows_are_declined(planner, a, b, out, bias, reason):
    strides = {name: (1,) * len(dims or ()) for name, dims in (("a", a), ("b", b), ("out", out), ("bias", bias))}
    assert reason in plan(planner, [2, 3, 4], a, b, out, strides, bias).reason


@pytest.mark.parametrize(("a", "message"), [([[0], [9]], "sizes has 3 entries"), ([[0], [0]], "twice")])
def test_lists_that_mean_nothing_are_refused(planner, a, message):
    with pytest.raises(ValueError, match=message):
        plan(planner, [5, 6, 7], a, [K, N], [M, N], PLAIN)


def test_a_size_beyond_int32_is_not_made_by_merging(planner):
    """Two labels of 2**16 would merge to 2**32 rows: one stays outside, as the strided batch."""
    n = 1 << 16
    sizes, strides = [n, n, 6, 7], {"a": (7 * n, 7, 1), "b": (7, 1), "out": (6 * n, 6, 1)}
    layout = plan(planner, sizes, [[0], [1], [3]], [[2], [3]], [[0], [1], [2]], strides)
    assert (layout.reason, layout.cols, layout.batch, layout.calls) == ("", n, n, 1)
    # Offsets beyond 2**31 elements are kept whole.
    assert layout.second.batch_stride == 7 * n


def test_a_matrix_is_never_given_up_for_a_gemv_of_fewer_calls(planner):
    """[b, s, h, d] operands into [b, h, s, t]: batching s would be one call a b and h of gemv; the matrix keeps s and t."""
    problem = attention(np.random.default_rng(0), "qk", (BSHD, BSHD, BHSD))
    layout = problem.layout(planner)
    assert sorted((layout.rows, layout.cols, layout.k)) == sorted((SIZES["s"], SIZES["t"], SIZES["d"]))


@pytest.mark.parametrize(("n", "calls"), [(64, 64), (65, None)])
def test_the_loop_has_a_limit(planner, n, calls):
    """Two batch labels that do not merge, the smaller of them n."""
    sizes = [n, 100, 2, 3, 4]
    big = make_tensor(np.random.default_rng(0), [[0], [2], [1], [4]], sizes, (0, 1, 2, 3))
    other = make_tensor(np.random.default_rng(0), [[0], [3], [1], [4]], sizes, (0, 1, 2, 3))
    out = make_tensor(np.random.default_rng(0), [[0], [1], [2], [3]], sizes, (0, 1, 2, 3))
    layout = Problem(sizes, big, other, out).layout(planner)
    assert (layout.calls if not layout.reason else None) == calls


def test_a_bias_turns_the_operands_so_that_it_lies_along_rows(planner):
    strides = PLAIN | {"out": (1, 5), "bias": (1,)}
    layout = plan(planner, [5, 6, 7], [M, K], [K, N], [M, N], strides, bias=[M])
    assert (layout.rows, layout.first_is_b) == (5, 0)


@pytest.mark.parametrize(("m", "n"), [(1, 6), (5, 1), (1, 1)])
def test_a_bias_lies_along_its_own_side_even_when_the_other_has_size_one(planner, m, n):
    rng = np.random.default_rng(0)
    sizes = [m, n, 7]
    tensors = [make_tensor(rng, dims, sizes, (0, 1)) for dims in ([M, K], [N, K], [M, N])]
    problem = Problem(sizes, *tensors, bias=make_tensor(rng, [N], sizes, (0,)))
    layout = problem.layout(planner)
    assert layout.reason == ""
    problem.assert_right(layout)


@pytest.mark.parametrize("bias", [Tensor([[0], [1]], [6, 1], np.zeros(30)), Tensor([[1]], [2], np.zeros(12))])
def test_a_bias_that_is_no_contiguous_vector_is_declined(planner, bias):
    layout = plan(planner, [5, 6, 7], [M, K], [K, N], [M, N], PLAIN | {"bias": bias.strides}, bias.dims)
    assert "bias" in layout.reason
