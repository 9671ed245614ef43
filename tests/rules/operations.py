"""The operations that rules meet, as source over the operands a, b and, where there is one, c; and their shapes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Operation:
    """`source` with {a}, {b}, {c} for the operands, whose shapes are given."""

    source: str
    shapes: dict[str, tuple[int, ...]]
    out: tuple[int, ...]


# Rows and columns fill a tile: what is cut smaller than that is not folded, for another reason than its labels.
OPERATIONS = {
    "matmul": Operation("torch.matmul({a}, {b})", {"a": (64, 8), "b": (8, 66)}, (64, 66)),
    "matmul of more": Operation("{a} @ {b}", {"a": (2, 64, 8), "b": (8, 66)}, (2, 64, 66)),
    "matmul of heads": Operation("{a} @ {b}", {"a": (2, 4, 64, 8), "b": (2, 4, 8, 66)}, (2, 4, 64, 66)),
    "linear": Operation("F.linear({a}, {b}, {c})", {"a": (2, 64, 8), "b": (66, 8), "c": (66,)}, (2, 64, 66)),
    "addmm": Operation("torch.addmm({c}, {a}, {b})", {"a": (64, 8), "b": (8, 66), "c": (64, 66)}, (64, 66)),
    "bmm": Operation("torch.bmm({a}, {b})", {"a": (2, 64, 8), "b": (2, 8, 66)}, (2, 64, 66)),
    "baddbmm": Operation(
        "torch.baddbmm({c}, {a}, {b})", {"a": (2, 64, 8), "b": (2, 8, 66), "c": (2, 64, 66)}, (2, 64, 66)
    ),
    "einsum": Operation('torch.einsum("bmk,bnk->bmn", {a}, {b})', {"a": (2, 64, 8), "b": (2, 66, 8)}, (2, 64, 66)),
    "conv2d": Operation("F.conv2d({a}, {b})", {"a": (2, 8, 8, 12), "b": (66, 8, 1, 1)}, (2, 66, 8, 12)),
}
