"""What is chosen among ways that are all right: the cost rule, gemv in disguise, arrays of pointers, pieces, copies."""

import itertools

import numpy as np
import pytest

from tests.csrc.planner import Demands
from tests.csrc.problems import Problem, make_tensor

WORK, BYTES = 4e8, 8e6  # of a launch, csrc/cost.h
M, N, K = [0], [1], [2]


# The cost rule --------------------------------------------------------------------------------------------------------


def test_a_call_costs_a_launch_at_least(planner):
    assert planner.cost(1, 1, 1) == 1
    assert planner.cost(64, 64, 64) == 1
    assert planner.cost(64, 64, 64, steps=7) == 7


def test_a_large_call_costs_its_work(planner):
    assert planner.cost(4096, 4096, 4096) == pytest.approx(4096**3 / WORK)
    # Then a loop over b costs no more than one call of all.
    assert planner.cost(4096, 4096, 4096, steps=4) == pytest.approx(planner.cost(4096, 4096, 4096, batch=4))


def test_a_thin_side_costs_a_whole_tile(planner):
    assert planner.cost(1, 4096, 4096, batch=64) == planner.cost(64, 4096, 4096, batch=64)
    assert planner.cost(65, 4096, 4096, batch=64) == planner.cost(128, 4096, 4096, batch=64)


def test_arrays_of_pointers_cost_a_launch_more(planner):
    assert planner.cost(8, 8, 8, steps=5, pointers=True) == 2
    assert planner.cost(8, 8, 8, steps=2, pointers=True) == planner.cost(8, 8, 8, steps=2)


def test_a_copy_costs_a_launch_and_its_bytes_twice(planner):
    assert planner.copy_cost(0, 4) == 1
    assert planner.copy_cost(1_000_000, 4) == pytest.approx(1 + 8e6 / BYTES)


# Gemv in disguise -----------------------------------------------------------------------------------------------------


def heads_in_rows(planner, groups, rows, **options):
    """m is (g, s) with s of stride groups * 2: only g lies contiguously, s rows are strided and do not merge with it."""
    sizes = [groups, rows, 32, 16]
    strides = {"a": (1, 2 * groups * 16, 2 * groups), "b": (16, 1), "out": (32 * rows, 32, 1)}
    return planner.plan(sizes, [[0], [1], [3]], [[2], [3]], [[0], [1], [2]], strides, **options)


def test_a_thin_matrix_is_no_plan_for_a_thick_problem(planner):
    layout = heads_in_rows(planner, 2, 4096)
    assert "gemv-shaped" in layout.reason
    # With as many groups as make a matrix it is one.
    assert heads_in_rows(planner, 8, 16).reason == ""


def test_a_thin_problem_has_a_thin_matrix(planner):
    assert heads_in_rows(planner, 2, 3).reason == ""
    assert planner.plan([1, 64, 64], [M, K], [N, K], [M, N], {"a": (64, 1), "b": (64, 1), "out": (64, 1)}).cols == 1


# Arrays of pointers ---------------------------------------------------------------------------------------------------


def unmerged(planner, b, h, **options):
    """Two batch labels that do not merge: in a [b h], in the other [h b]."""
    rng = np.random.default_rng(0)
    sizes = [b, h, 3, 4, 5]
    tensors = [
        make_tensor(rng, dims, sizes, (0, 1, 2, 3))
        for dims in ([[0], [1], [2], [4]], [[1], [0], [3], [4]], [[0], [1], [2], [3]])
    ]
    problem = Problem(sizes, *tensors)
    return problem, problem.layout(planner, **options)


@pytest.mark.parametrize(("b", "h", "pointers"), [(2, 8, 0), (3, 8, 1), (70, 80, 1)])
def test_arrays_of_pointers_where_a_loop_would_be_longer(planner, b, h, pointers):
    problem, layout = unmerged(planner, b, h, demands=Demands(pointer_arrays=True))
    assert (layout.reason, layout.pointers) == ("", pointers)
    problem.assert_right(layout)


def test_without_them_a_loop_or_nothing(planner):
    assert unmerged(planner, 3, 8)[1].calls == 3
    assert "more than 64 calls" in unmerged(planner, 70, 80)[1].reason


def test_an_epilogue_keeps_the_loop(planner):
    """CUBLASLT_EPILOGUE_DEFAULT alone goes with arrays of pointers."""
    problem, _ = unmerged(planner, 3, 8)
    strides = {"a": problem.a.strides, "b": problem.b.strides, "out": problem.out.strides}
    dims = (problem.a.dims, problem.b.dims, problem.out.dims)
    layout = planner.plan(problem.sizes, *dims, strides, demands=Demands(pointer_arrays=True), activation="relu")
    assert (layout.pointers, layout.calls) == (0, 3)


# Sizes beyond int32 ---------------------------------------------------------------------------------------------------

PIECE = 1 << 30


def pieces(layout):
    return (layout, *layout.more)


@pytest.mark.parametrize("m", [1 << 31, (1 << 31) + 5, 3 * PIECE, 3 * PIECE + 1, (1 << 35) + 7])
@pytest.mark.parametrize("side", ["m", "n", "batch"])
def test_what_is_beyond_int32_is_cut_and_nothing_is_lost(planner, side, m):
    sizes = {"m": [m, 6, 7], "n": [6, m, 7], "batch": [6, 5, 7, m]}[side]
    if side == "batch":
        dims = ([[3], [0], [2]], [[3], [1], [2]], [[3], [0], [1]])
        strides = {"a": (42, 7, 1), "b": (35, 7, 1), "out": (30, 5, 1)}
    else:
        dims = ([M, K], [N, K], [M, N])
        strides = {"a": (7, 1), "b": (7, 1), "out": (sizes[1], 1)}
    layout = planner.plan(sizes, *dims, strides)
    assert layout.reason == ""
    own = {"m": "cols", "n": "rows", "batch": "batch"}[side]
    covered = []
    for part in pieces(layout):
        assert max(part.rows, part.cols, part.k, part.batch) < 1 << 31
        step = {"m": strides["out"][0], "n": 1, "batch": 30}[side]
        covered += [(at // step, at // step + getattr(part, own)) for at in part.starts("out")]
        # The operand that has the label starts as far in as the output does.
        name = {"m": "a", "n": "b", "batch": "a"}[side]
        stride = {"m": 7, "n": 7, "batch": 42}[side]
        assert [x // stride for x in part.starts(name)] == [x // step for x in part.starts("out")]
    covered.sort()
    assert (covered[0][0], covered[-1][1]) == (0, m)
    assert all(x[1] == y[0] for x, y in itertools.pairwise(covered))


def test_too_many_pieces_are_no_loop(planner):
    layout = planner.plan([1 << 37, 6, 7], [M, K], [N, K], [M, N], {"a": (7, 1), "b": (7, 1), "out": (6, 1)})
    assert "more than 64 calls" in layout.reason


def test_a_bias_goes_with_its_piece(planner):
    n = (1 << 31) + 5
    strides = {"a": (7, 1), "b": (7, 1), "out": (n, 1), "bias": (1,)}
    layout = planner.plan([2, n, 7], [M, K], [N, K], [M, N], strides, bias=[N])
    for part in pieces(layout):
        assert part.starts("bias") == list(part.starts("out"))


def test_a_bias_gradient_is_not_cut(planner):
    n = (1 << 31) + 5
    strides = {"a": (7, 1), "b": (7, 1), "out": (n, 1), "bias": (1,)}
    layout = planner.plan([2, n, 7], [M, K], [N, K], [M, N], strides, bias=[N], role="grad_b")
    assert "several matrices" in layout.reason


# Demands of types and modes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "ok"), [((16, 1), (16, 1), 1), ((1, 8), (16, 1), 0), ((16, 1), (1, 8), 0)])
def test_k_innermost_is_one_layout_alone(planner, a, b, ok):
    demands = Demands(k_innermost=True)
    layout = planner.plan([8, 8, 16], [M, K], [N, K], [M, N], {"a": a, "b": b, "out": (8, 1)}, demands=demands)
    assert (layout.reason == "") == bool(ok)
    if ok:
        assert (layout.first.trans, layout.second.trans) == (1, 0)


@pytest.mark.parametrize(("k", "ld", "ok"), [(16, 16, 1), (16, 32, 1), (16, 20, 0), (20, 20, 0)])
def test_leading_dimensions_of_a_multiple(planner, k, ld, ok):
    demands = Demands(k_innermost=True, operand_multiple=16)
    strides = {"a": (ld, 1), "b": (ld, 1), "out": (8, 1)}
    layout = planner.plan([8, 8, k], [M, K], [N, K], [M, N], strides, demands=demands)
    assert (layout.reason == "") == bool(ok)


def test_a_made_up_leading_dimension_is_of_the_multiple_too(planner):
    demands = Demands(k_innermost=True, operand_multiple=16)
    strides = {"a": (99, 1), "b": (32, 1), "out": (8, 1)}
    assert planner.plan([1, 8, 24], [M, K], [N, K], [M, N], strides, demands=demands).second.ld == 32


@pytest.mark.parametrize("out", ["m n", "n m"])
@pytest.mark.parametrize("k_first", [False, True])
def test_one_row_is_planned_as_many_are(planner, out, k_first):
    """Batch-invariant: flags and operand order must not depend on how many rows there are."""
    seen = set()
    for m in (1, 2, 5, 64):
        dims = ([K, M] if k_first else [M, K], [N, K], [M, N] if out == "m n" else [N, M])
        strides = {"a": (m, 1) if k_first else (7, 1), "b": (7, 1), "out": (6, 1) if out == "m n" else (m, 1)}
        layout = planner.plan([m, 6, 7], *dims, strides, demands=Demands(order_of_spec=True))
        assert layout.reason == ""
        seen.add((layout.first_is_b, layout.first.trans, layout.second.trans))
    assert len(seen) == 1


# Copies ---------------------------------------------------------------------------------------------------------------


def test_no_copy_where_none_helps(planner):
    strides = {"a": (7, 1), "b": (7, 1), "out": (6, 1)}
    assert planner.copies([5, 6, 7], [M, K], [N, K], [M, N], strides) == {"a": None, "b": None}


def test_the_operand_that_is_no_matrix_is_copied_in_the_others_order(planner):
    """k is (j, i): a has j outside, b has i outside. One of them is copied, the smaller."""
    sizes = [50, 60, 3, 4]
    a, b = [[0], [2], [3]], [[1], [3], [2]]
    strides = {"a": (12, 4, 1), "b": (12, 3, 1), "out": (60, 1)}
    advice = planner.copies(sizes, a, b, [[0], [1]], strides)
    assert advice == {"a": [12, 1, 3], "b": None}


def test_a_copy_is_cheaper_than_a_long_loop_of_little(planner):
    """64 launches of nothing much against a copy and one call; of large matrices the loop costs nothing."""
    for size, copied in ((16, True), (2048, False)):
        sizes = [48, 96, size, size, size]
        big = size * size
        strides = {"a": (96 * big, big, size, 1), "b": (big, 48 * big, size, 1), "out": (96 * big, big, size, 1)}
        dims = ([[0], [1], [2], [4]], [[0], [1], [3], [4]], [[0], [1], [2], [3]])
        assert planner.plan(sizes, *dims, strides).calls == 48
        assert (planner.copies(sizes, *dims, strides)["b"] is not None) == copied


def test_what_no_copy_of_one_operand_helps_has_no_advice(planner):
    """The output is what is no matrix."""
    strides = {"a": (21, 3, 1), "b": (18, 3, 1), "out": (18, 3, 1)}
    dims = ([[0], [2], [3]], [[2], [1], [3]], [[0], [1], [3]])
    assert planner.copies([5, 6, 7, 3], *dims, strides) == {"a": None, "b": None}
