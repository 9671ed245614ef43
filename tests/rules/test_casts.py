"""A cast between a view and a matmul moves above the view: what is cast is the base, once for all that read it."""

import functools

import pytest

from tests.rules.together import Line, outcomes

DOES = {
    "transposed, then cast": Line("x.double() @ w.t().double()", {"x": (3, 4), "w": (5, 4)}),
    "cast, then transposed": Line("x.double() @ w.double().t()", {"x": (3, 4), "w": (5, 4)}),
    "reshaped, then cast with to": Line("x.double() @ w.reshape(4, 5).to(torch.float64)", {"x": (3, 4), "w": (20,)}),
    "between two views": Line("x.double() @ w.reshape(5, 4).double().t()", {"x": (3, 4), "w": (20,)}),
    "both operands": Line("x.t().double() @ w.t().double()", {"x": (4, 3), "w": (5, 4)}),
    "batched": Line("torch.bmm(x.double(), w.mT.double())", {"x": (2, 3, 4), "w": (2, 5, 4)}),
}
DOES_NOT = {
    "what others want cast": Line(
        "(lambda v: torch.cat([x.double() @ v, v + 1]))(w.t().double())", {"x": (3, 4), "w": (5, 4)}
    ),
}


@functools.lru_cache(None)
def found():
    """What became of every line."""
    return outcomes(DOES | DOES_NOT, grad=True)


CASTS = {"to", "double", "convert_element_type"}


@pytest.mark.parametrize("what", DOES)
def test_the_base_is_cast(what):
    outcome = found()[what]
    assert outcome.names.count("gemm") == 3
    assert not outcome.beside


@pytest.mark.parametrize("what", DOES_NOT)
def test_a_cast_for_others_stays_where_it_is(what):
    outcome = found()[what]
    assert "permute" in outcome.names


def test_one_cast_serves_two_matmuls():
    line = Line(
        "torch.cat([x.double() @ w.t().double(), y.double() @ w.t().double()])", {"x": (3, 4), "y": (3, 4), "w": (5, 4)}
    )
    (outcome,) = outcomes({"": line}, grad=False).values()
    assert outcome.names.count("gemm") == 2
    assert len([name for name in outcome.names if name in CASTS]) == 3
