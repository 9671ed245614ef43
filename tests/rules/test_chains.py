"""Two views in any order, views that several matmuls share, views that others use too, and costs that forbid a fold."""

import functools
import itertools

import pytest

from tests.rules.together import Line, outcomes

# Each gives a tensor of shape (12, 10) one of another shape; after any two a reshape restores it.
VIEWS = {
    "t": "{x}.transpose(0, -1)",
    "reshape": "{x}.reshape(2, -1, 5)",
    "unsqueeze": "{x}.unsqueeze(1)",
    "flatten": "{x}.flatten()",
    "contiguous": "{x}.contiguous()",
    "movedim": "{x}.movedim(0, -1)",
}


def _chains():
    for one, two in itertools.product(VIEWS, VIEWS):
        # Flattened there is but one dimension; transposing that is nothing.
        if one != "flatten" or two == "reshape":
            x = VIEWS[two].format(x=VIEWS[one].format(x="x"))
            yield f"{one}, {two}", Line(f"torch.cat([{x}.reshape(12, 10) @ w])", {"x": (12, 10), "w": (10, 4)})


CHAINS = dict(_chains())


@functools.lru_cache(None)
def chained(grad):
    """What became of every chain."""
    return outcomes(CHAINS, grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_two_views_folds_or_the_report_says_why(chain, grad):
    outcome = chained(grad)[chain]
    for view in outcome.beside:
        assert f"{view.partition(':')[0]} above" in outcome.reasons or "below stays" in outcome.reasons
    if not outcome.beside and any(row.decision == "given back" for row in outcome.rows):
        assert "stays" in outcome.reasons or "nothing to fold" in outcome.reasons


SHARED = {
    "two matmuls": (
        Line("(lambda v: torch.cat([x @ v, y @ v]))(w.t())", {"x": (3, 4), "y": (3, 4), "w": (5, 4)}),
        {"gemm": 2},
    ),
    "both operands of one": (Line("(lambda v: v @ v.t())(x.reshape(3, 4))", {"x": (12,)}), {"gemm": 1}),
    "matmul and pointwise work": (
        Line("(lambda v: torch.cat([x @ v, v + 1]))(w.t())", {"x": (3, 4), "w": (5, 4)}),
        {"gemm": 1, "permute": 1},
    ),
    "matmul and what is returned": (
        Line("(lambda v: (torch.cat([x @ v]), v)[0])(w.t())", {"x": (3, 4), "w": (5, 4)}),
        {"gemm": 1},
    ),
    "a view of a result that several want": (
        Line("(lambda v: torch.cat([v, v + 1]))((x @ w).t())", {"x": (3, 4), "w": (4, 5)}),
        {"gemm": 1, "permute": 0},
    ),
    "a result that is wanted unviewed too": (
        Line("(lambda y: torch.cat([y.reshape(-1), y.t().reshape(-1)]))(x @ w)", {"x": (3, 4), "w": (4, 5)}),
        {"matmul": 1, "gemm": 0},
    ),
    "grouped heads": (
        Line(
            "torch.cat([q @ k[:, :, None].expand(2, 2, 3, 7, 5).reshape(2, 6, 7, 5).mT])",
            {"q": (2, 6, 4, 5), "k": (2, 2, 7, 5)},
        ),
        {"gemm": 1, "expand": 0, "permute": 0},
    ),
    "to heads": (
        Line("torch.cat([(x @ w).reshape(2, 5, 3, 4).permute(0, 2, 1, 3)])", {"x": (2, 5, 6), "w": (6, 12)}),
        {"permute": 1},
    ),
}


@functools.lru_cache(None)
def shared():
    """What became of every line."""
    return outcomes({name: line for name, (line, _) in SHARED.items()}, grad=False)


@pytest.mark.parametrize("what", SHARED)
def test_views_with_several_users(what):
    outcome = shared()[what]
    assert {name: outcome.names.count(name) for name in SHARED[what][1]} == SHARED[what][1]


def test_a_fold_that_would_make_one_gemm_many_is_not_taken_and_the_report_quotes_the_cost():
    assert "permute below stays: folded, it would cost" in shared()["to heads"].reasons
    assert "call(s)" in shared()["to heads"].reasons


def test_what_is_saved_for_the_backward_is_the_base():
    """Folded into forward and backward, no copy of a permuted operand outlives the forward."""
    line = Line("torch.cat([x.permute(1, 2, 0) @ w.t()])", {"x": (4, 2, 3), "w": (5, 4)})
    (outcome,) = outcomes({"": line}, grad=True).values()
    assert "permute" not in outcome.names[: outcome.names.index("cat")]
