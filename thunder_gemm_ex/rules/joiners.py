"""Operations that copy each operand to a place of its own, and when their result takes its strides from an operand."""

from __future__ import annotations

from collections.abc import Sequence

from thunder.core.prims import PrimIDs
from thunder.core.symbol import BoundSymbol

# By symbol id: what it is called in reports. In whatever order an operand lies, the copy costs the same.
JOINERS = {PrimIDs.CAT: "cat", "cat": "cat", "torch.cat": "cat", "stack": "stack", "torch.stack": "stack"}
# Dimensions from the innermost of the memory formats that torch knows besides the contiguous one, by the number of them.
_CHANNELS_LAST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def hands_strides_on(joiner: BoundSymbol, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the result may be in another memory format than the contiguous one because this operand is.

    Torch's cat takes a format that all its operands have; stack is a cat of unsqueezed operands, or along dimension 0 of
    the operands themselves.
    """
    if _is_channels_last(shape, strides):
        return True
    if JOINERS[joiner.sym.id] == "cat":
        return False
    dim = joiner.kwargs.get("dim", joiner.args[1] if len(joiner.args) > 1 else 0) % (len(shape) + 1)
    inner = shape[dim] * strides[dim] if dim < len(shape) else 1
    return _is_channels_last((*shape[:dim], 1, *shape[dim:]), (*strides[:dim], inner, *strides[dim:]))


def _is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Torch's own rule for what it takes as channels_last (c10/core/MemoryFormat.h): steps grow in that order."""
    if len(shape) not in _CHANNELS_LAST or strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for d in _CHANNELS_LAST[len(shape)]:
        if strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * shape[d]
    return True
