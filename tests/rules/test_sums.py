"""A sum below a matmul over a label of both operands is one more label of k; others stay sums."""

import functools

import pytest

from tests.rules.together import Line, outcomes

XY = {"x": (3, 4, 5), "y": (3, 5, 6)}
# The label lies right outside of k in both operands, so that the two are one summed label to the GEMM.
MERGING = {"x": (4, 3, 5), "y": (3, 5, 6)}
PRODUCT = "torch.bmm(x.permute(1, 0, 2), y)"
DOES = {
    "a batch label": Line(f"{PRODUCT}.sum(0)", MERGING),
    "with the dimension kept": Line(f"{PRODUCT}.sum(0, keepdim=True)", MERGING),
    "two batch labels": Line("(x.permute(1, 2, 0, 3) @ y).sum((0, 1))", {"x": (4, 2, 3, 5), "y": (2, 3, 5, 6)}),
    "matmul's": Line("(x.transpose(0, 1) @ y).sum(0)", MERGING),
    "addbmm": Line("torch.addbmm(c, x.permute(1, 0, 2), y)", MERGING | {"c": (4, 6)}),
}
DOES_NOT = {
    "a label that k does not meet in memory": Line("torch.bmm(x, y).sum(0)", XY),
    "rows": Line("torch.bmm(x, y).sum(1)", XY),
    "columns": Line("torch.bmm(x, y).sum(-1)", XY),
    "everything": Line("torch.bmm(x, y).sum()", XY),
    "a batch label of one operand": Line("(x @ y).sum(0)", {"x": (3, 4, 5), "y": (5, 6)}),
    "behind a bias": Line("(torch.bmm(x, y) + c).sum(0)", XY | {"c": (6,)}),
    "what others want unsummed": Line("(lambda z: torch.cat([z.sum(0), z[0]]))(torch.bmm(x, y))", XY),
    "in another dtype": Line("torch.bmm(x, y).sum(0, dtype=torch.float64).float()", XY),
}


@functools.lru_cache(None)
def found(grad):
    """What became of every line."""
    return outcomes(DOES | DOES_NOT, grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("what", DOES)
def test_it_is_a_label_of_k(what, grad):
    outcome = found(grad)[what]
    first = next(row for row in outcome.rows if not row.backward)
    assert first.decision == "claimed"
    assert "sum of the result" in first.reason
    if not grad:
        assert "sum" not in outcome.names


@pytest.mark.parametrize("what", DOES_NOT)
def test_it_stays_a_sum(what):
    assert "sum" in found(False)[what].names


def test_the_report_says_why_a_sum_stays():
    assert "a summed dimension is not one of both operands" in found(False)["rows"].reasons
    assert "1 summed label(s) apart" in found(False)["a label that k does not meet in memory"].reasons


def test_the_gradient_of_a_shared_weight_is_one_gemm():
    """What autograd sums over the batch, because the weight was expanded over it, the wgrad sums itself."""
    line = Line("torch.bmm(x, w.expand(3, 5, 6))", {"x": (3, 4, 5), "w": (5, 6)})
    (outcome,) = outcomes({"": line}, grad=True).values()
    assert "sum" not in outcome.names
    assert outcome.names.count("gemm") == 3
