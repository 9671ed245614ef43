"""Every operation times every way of writing a view, above each operand and below the result, forward and backward.

After our pass no view feeds or follows a gemm unless the report says which one, and why it stays.
"""

import functools

import pytest

from tests.rules.operations import OPERATIONS
from tests.rules.together import Line, outcomes
from tests.rules.views import ABOVE, BELOW, REORDERING

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


def _below(op, form="torch.cat([{0}, {0}])"):
    """{view: Line}: each view below the operation, and something below it that makes strides of its own."""
    plain = op.source.format(**{x: x for x in op.shapes})
    lines = {}
    for name, write in BELOW.items():
        view = write("y", len(op.out))
        if view is not None:
            lines[name] = Line(form.format(f"(lambda y: {view})({plain})"), dict(op.shapes))
    return lines


@functools.lru_cache(None)
def above(op, operand, mode):
    return outcomes(_above(OPERATIONS[op], operand), grad=MODES[mode], leaf_strides=False)


@functools.lru_cache(None)
def below(op, mode):
    return outcomes(_below(OPERATIONS[op], "torch.cat([{0}, {0}[:1]])"), grad=MODES[mode], leaf_strides=False)
