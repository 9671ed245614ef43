"""What is added to a result is the bias or the C of its GEMM, forward; what is not stays an add, and the report says why."""

import functools

import pytest

from tests.rules.together import Line, outcomes

XWB = {"x": (2, 5, 8), "w": (6, 8), "b": (6,)}
DOES = {
    "a bias of columns": Line("x @ w.t() + b", XWB),
    "a bias first": Line("b + x @ w.t()", XWB),
    "a bias subtracted": Line("x @ w.t() - b", XWB),
    "a bias scaled": Line("torch.add(x @ w.t(), b, alpha=2)", XWB),
    "what the product is subtracted from": Line("b - x @ w.t()", XWB),
    "a bias seen through views": Line("x @ w.t() + b.reshape(6)", XWB | {"b": (2, 3)}),
    "a bias of rows": Line("x @ w.t() + c", {"x": (5, 8), "w": (6, 8), "c": (5, 1)}),
    "a full C": Line("x @ w.t() + c", {"x": (5, 8), "w": (6, 8), "c": (5, 6)}),
    "a C of every batch": Line("torch.bmm(x, w) + c", {"x": (2, 5, 8), "w": (2, 8, 6), "c": (2, 5, 6)}),
    "addmm": Line("torch.addmm(c, x, w, beta=0.5, alpha=2)", {"c": (5, 6), "x": (5, 8), "w": (8, 6)}),
    "a linear's bias to heads": Line("F.linear(x, w, b).reshape(2, 5, 2, 3) * 1.0", XWB),
}
DOES_NOT = {
    "a C that decides the order of what is returned": Line(
        "c.t() + x @ w.t()", {"x": (5, 8), "w": (6, 8), "c": (6, 5)}
    ),
    "part of the batch": Line("torch.bmm(x, w) + c", {"x": (2, 5, 8), "w": (2, 8, 6), "c": (2, 1, 1)}),
    "a second term": Line("x @ w.t() + b + c", XWB | {"c": (6,)}),
    "a result that others want": Line("(lambda y: torch.cat([y + b, y]))(x @ w.t())", XWB),
    "a larger tensor": Line("x @ w.t() + c", {"x": (5, 8), "w": (6, 8), "c": (3, 5, 6)}),
}


@functools.lru_cache(None)
def found(grad):
    """What became of every line."""
    return outcomes(DOES | DOES_NOT, grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("what", DOES)
def test_it_is_in_the_call(what, grad):
    outcome = found(grad)[what]
    first = next(row for row in outcome.rows if not row.backward)
    assert first.decision == "claimed"
    assert first.spec.partition("->")[0].count(",") == 2
    if not grad:
        assert not {"add", "sub", "mul", "neg"} & set(outcome.names)


@pytest.mark.parametrize("what", DOES_NOT)
def test_it_stays_an_add(what):
    outcome = found(False)[what]
    assert "add" in outcome.names


def test_the_report_says_why_an_add_stays():
    assert "strides of what is added" in found(False)["a C that decides the order of what is returned"].reasons
    assert "neither as large as the result nor one row or column" in found(False)["part of the batch"].reasons
