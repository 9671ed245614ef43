"""A factor before or after a matmul is its alpha, a number or a tensor without dimensions; what a GEMM would skip is not."""

import functools

import pytest

from tests.rules.together import Line, outcomes

XW = {"x": (3, 4), "w": (4, 5)}
DOES = {
    "after": (Line("(x @ w) * 0.5", XW), 0.5),
    "after, on the left": (Line("0.5 * (x @ w)", XW), 0.5),
    "divided": (Line("(x @ w) / 4", XW), 0.25),
    "negated": (Line("-(x @ w)", XW), -1.0),
    "twice": (Line("(x @ w) * 0.5 * 4", XW), 2.0),
    "before, on a": (Line("(x * 0.5) @ w", XW), 0.5),
    "before, on b": (Line("x @ (w * 0.5)", XW), 0.5),
    "on both": (Line("(x * 0.5) @ (w * 4)", XW), 2.0),
    "between view and matmul": (Line("(x.t() * 0.5) @ w", {"x": (4, 3), "w": (4, 5)}), 0.5),
    "between two views": (Line("(x.reshape(4, 3) * 0.5).t() @ w", {"x": (12,), "w": (4, 5)}), 0.5),
    "behind a view of the result": (Line("(x @ w).reshape(15) * 0.5", XW), 0.5),
}
DOES_NOT = {
    "zero": Line("(x @ w) * 0.0", XW),
    "a tensor of the result's shape": Line("(x @ w) * c", XW | {"c": (3, 5)}),
    "a tensor of one row": Line("(x @ w) * c", XW | {"c": (5,)}),
    "what divides": Line("2.0 / (x @ w + 100)", XW),
    "a scaled operand that others want": Line("(lambda z: torch.cat([z @ w, z @ w + z[:, :1]]))(x * 0.5)", XW),
    "a square": Line("(lambda y: y * y)(x @ w)", XW),
}


@functools.lru_cache(None)
def found(grad):
    """What became of every line."""
    return outcomes({name: line for name, (line, _) in DOES.items()} | ({} if grad else DOES_NOT), grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("what", DOES)
def test_it_is_alpha(what, grad):
    outcome = found(grad)[what]
    first = next(row for row in outcome.rows if not row.backward)
    assert first.decision == "claimed"
    assert "a factor of" in first.reason
    if not grad:
        assert not {"mul", "neg", "true_divide", "div"} & set(outcome.names)
        (line,) = [x for x in outcome.lines if "gemm(" in x]
        assert f"alpha={DOES[what][1]}" in line


@pytest.mark.parametrize("what", DOES_NOT)
def test_it_stays_a_multiply(what):
    outcome = found(False)[what]
    assert {"mul", "true_divide", "torch_div_prim_impl", "div"} & set(outcome.names)
    assert not any("gemm(" in x and "alpha=" in x for x in outcome.lines)


def test_a_tensor_without_dimensions_is_alpha_where_it_lies_in_host_memory():
    (outcome,) = outcomes({"": Line("(x.t() @ w) * s", {"x": (4, 3), "w": (4, 5), "s": ()})}, grad=False).values()
    (row,) = outcome.rows
    assert "a factor of the result" in row.reason
    assert any("alpha=s_0" in x for x in outcome.lines)


def test_a_result_that_the_gradient_of_its_factor_needs_stays_unscaled():
    (outcome,) = outcomes({"": Line("(x @ w) * s", XW | {"s": ()})}, grad=True).values()
    first = next(row for row in outcome.rows if not row.backward)
    assert first.decision == "given back"


def test_a_second_tensor_as_factor_stays_and_the_report_says_so():
    (outcome,) = outcomes({"": Line("(x @ w) * s * r", XW | {"s": (), "r": ()})}, grad=False).values()
    assert "below stays: the call has other terms already" in outcome.reasons
