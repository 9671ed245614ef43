"""What eager refuses is refused in eager's words, what it accepts is computed: each operand of each operation altered."""

import pytest
import torch

from tests.checks import jit
from tests.front_door.table import OPS

# Terms change nothing about what fits; one of them is enough.
NAMED = [op for op in OPS if not op.name.endswith((" scaled", " negative", " beta=0"))]


def alterations(shapes):
    """(what, shapes, dtypes) for every dimension one longer, every operand one dimension more or less, wider or narrower."""
    same = (torch.float32,) * len(shapes)
    for i, shape in enumerate(shapes):
        others = [
            *((f"dimension {d}", (*shape[:d], shape[d] + 1, *shape[d + 1 :])) for d in range(len(shape))),
            ("rank + 1", (2, *shape)),
            ("rank - 1", shape[1:]),
        ]
        for what, other in others:
            yield f"{what} of operand {i}", (*shapes[:i], other, *shapes[i + 1 :]), same
        if len(shapes) > 1:
            for dtype in (torch.float64, torch.bfloat16):
                yield f"{dtype} of operand {i}", shapes, (*same[:i], dtype, *same[i + 1 :])


def outcome(call, args):
    """What it returns, or its exception."""
    try:
        return call(*args)
    except Exception as error:
        return error


CASES = [(op, *altered) for op in NAMED for altered in alterations(op.shapes[0])]


@pytest.mark.parametrize(("op", "what", "shapes", "dtypes"), CASES, ids=[f"{c[0].name}: {c[1]}" for c in CASES])
def test_an_altered_operand(op, what, shapes, dtypes):
    args = [torch.randn(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes)]
    eager, ours = outcome(op.function, args), outcome(jit(op.function), args)
    if isinstance(eager, Exception):
        assert (type(ours), str(ours)) == (type(eager), str(eager))
    else:
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
