"""Every operation times every way of writing a view, above each operand and below the result, forward and backward.

After our pass no view feeds or follows a gemm unless the report says which one, and why it stays.
"""

import re

import pytest

from tests.checks import MATMULS
from tests.rules.operations import OPERATIONS
from tests.rules.together import Line, outcomes
from tests.rules.views import ABOVE, BELOW, REORDERING, TRANSPOSING

MODES = {"inference": False, "training": True}


def _above(op, operand):
    """{view: Line}: the operation with each view above one of its operands."""
    lines = {}
    for name, (stored, write) in ABOVE.items():
        wanted = op.shapes[operand]
        shape = stored(wanted)
        if shape is None:
            continue
        seen = {x: x for x in op.shapes} | {operand: write(operand, wanted)}
        inputs = op.shapes | {operand: shape}
        inputs |= {"like": wanted} if "like" in seen[operand] else {}
        lines[name] = Line(op.source.format(**seen), inputs)
    return lines


def _below(op, form):
    """{view: Line}: each view below the operation, and below that what `form` says."""
    plain = op.source.format(**{x: x for x in op.shapes})
    views = {name: write("y", len(op.out)) for name, write in BELOW.items()}
    return {
        name: Line(form.format(f"(lambda y: {view})({plain})"), dict(op.shapes))
        for name, view in views.items()
        if view is not None
    }


# One operand has batch dimensions that are rows to the GEMM: a permute may leave them where no single GEMM reads them,
# and what is expanded over them has no other operand that carries the label.
ROWS = {("matmul of more", "a"), ("linear", "a"), ("matmul of more", "result"), ("linear", "result")}
OPERANDS = [(op, operand) for op, operation in OPERATIONS.items() for operand in operation.shapes]


def check(outcome, *, may_stay):
    """No view stands beside a gemm, or the report says of each why; what is no gemm was given back with a reason."""
    for view in outcome.beside:
        name = view.partition(":")[0]
        assert re.search(rf"{re.escape(name)} (above \w+|below) stays: \w+", outcome.reasons), (view, outcome.reasons)
    assert may_stay or not outcome.beside
    for row in outcome.rows:
        assert row.decision in ("claimed", "given back", "multiply")
        assert row.reason
    assert outcome.rows


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("op", "operand"), OPERANDS, ids=[f"{op} {operand}" for op, operand in OPERANDS])
def test_every_view_above_an_operand(op, operand, mode):
    found = outcomes(_above(OPERATIONS[op], operand), grad=MODES[mode])
    for view, outcome in found.items():
        check(outcome, may_stay=(op, operand) in ROWS)
        # A convolution keeps its memory format, which depends on the input's order.
        if view in TRANSPOSING and op != "conv2d":
            assert "gemm" in outcome.names, view
            assert not set(outcome.names) & (MATMULS - {"gemm"}), view


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_view_below_a_result(op):
    for view, outcome in outcomes(_below(OPERATIONS[op], "torch.cat([{0}, {0}[:1]])"), grad=True).items():
        check(outcome, may_stay=(op, "result") in ROWS)
        if view in REORDERING and op in ("matmul", "matmul of heads", "bmm", "einsum"):
            assert "gemm" in outcome.names, view
            assert re.search("of the result", outcome.reasons), view


# Does not -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_reordered_result_that_is_returned_stays_a_view_with_eagers_strides(op):
    for view, outcome in outcomes(_below(OPERATIONS[op], "{0}"), grad=False).items():
        check(outcome, may_stay=True)
        # Two other operations have views of their own below them, one of which is this one's inverse.
        if view in REORDERING and op not in ("einsum", "conv2d"):
            assert "stays: the program returns it with its strides" in outcome.reasons, view


# What only looks like a view; and what labels cannot state.
NO_VIEWS = {
    "roll": "torch.roll({x}, 1, 0)",
    "flip": "{x}.flip(0)",
    "index_select": "{x}.index_select(0, torch.tensor([1, 0, 2, 3, 4, 5, 6, 7]))",
    "tril": "{x}.tril()",
    "cat": "torch.cat([{x}[4:], {x}[:4]])",
    "uneven reshape": "{x}[:, :6].reshape(12, 4).reshape(6, 8).repeat(2, 1)[:8]",
}


@pytest.mark.parametrize("what", NO_VIEWS)
@pytest.mark.parametrize("operand", ["a", "b"])
def test_what_moves_elements_is_not_a_view(what, operand):
    moved = NO_VIEWS[what].format(x=operand)
    source = "torch.matmul({}, {})".format(*(moved if x == operand else x for x in "ab"))
    (outcome,) = outcomes({what: Line(source, {"a": (8, 8), "b": (8, 8)})}, grad=False).values()
    assert "gemm" not in outcome.names
    assert "matmul" in outcome.names
    assert not any("folded" in row.reason for row in outcome.rows)
