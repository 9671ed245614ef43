"""Every way of writing a view, as source: above an operand of a wanted shape, or below a result."""

import math


def _swapped(shape):
    return (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else None


def _swapped_matrix(shape):
    return _swapped(shape) if len(shape) == 2 else None


def _rotated(shape):
    return (*shape[1:], shape[0])


def _last_split(shape):
    return (*shape[:-1], 2, shape[-1] // 2) if shape[-1] > 2 else None


def _last_joined(shape):
    return (*shape[:-2], shape[-2] * shape[-1]) if len(shape) > 1 else None


def _one_batch(shape):
    return (1, *shape[1:]) if len(shape) > 2 else None


def _no_batch(shape):
    return shape[1:] if len(shape) > 2 else None


def _repeated(shape):
    """Heads that are shared by two: grouped-query attention's keys and values."""
    return (shape[0], shape[1] // 2, *shape[2:]) if len(shape) == 4 else None


def _same(shape):
    return shape


def _swap_last(n):
    return (*range(n - 2), n - 1, n - 2)


# name: (the stored shape for a wanted one, or None where it cannot give it; source for a name and the wanted shape).
ABOVE = {
    "transpose": (_swapped, lambda x, s: f"{x}.transpose(-1, -2)"),
    "torch.transpose": (_swapped, lambda x, s: f"torch.transpose({x}, {len(s) - 2}, {len(s) - 1})"),
    "permute": (_swapped, lambda x, s: f"{x}.permute({_swap_last(len(s))})"),
    "torch.permute": (_rotated, lambda x, s: f"torch.permute({x}, {(len(s) - 1, *range(len(s) - 1))})"),
    "t": (_swapped_matrix, lambda x, s: f"{x}.t()"),
    "T": (_swapped_matrix, lambda x, s: f"{x}.T"),
    "mT": (_swapped, lambda x, s: f"{x}.mT"),
    "H": (_swapped_matrix, lambda x, s: f"{x}.H"),
    "mH": (_swapped, lambda x, s: f"{x}.mH"),
    "adjoint": (_swapped, lambda x, s: f"{x}.adjoint()"),
    "movedim": (_rotated, lambda x, s: f"{x}.movedim(-1, 0)"),
    "moveaxis": (_rotated, lambda x, s: f"torch.moveaxis({x}, -1, 0)"),
    "swapaxes": (_swapped, lambda x, s: f"{x}.swapaxes(-2, -1)"),
    "swapdims": (_swapped, lambda x, s: f"torch.swapdims({x}, -1, -2)"),
    "reshape": (_last_split, lambda x, s: f"{x}.reshape({s})"),
    "reshape of a vector": (lambda s: (math.prod(s),), lambda x, s: f"{x}.reshape({s})"),
    "reshape to -1": (_last_split, lambda x, s: f"{x}.reshape(*{s[:-1]}, -1)"),
    "reshape_as": (_last_split, lambda x, s: f"{x}.reshape_as(like)"),
    "view": (_last_split, lambda x, s: f"{x}.view({s})"),
    "view_as": (_last_split, lambda x, s: f"{x}.view_as(like)"),
    "flatten": (_last_split, lambda x, s: f"{x}.flatten(-2)"),
    "torch.flatten": (_last_split, lambda x, s: f"torch.flatten({x}, {len(s) - 1}, {len(s)})"),
    "unflatten": (_last_joined, lambda x, s: f"{x}.unflatten(-1, {s[-2:]})"),
    "unsqueeze and squeeze": (_same, lambda x, s: f"{x}.unsqueeze(1).squeeze(1)"),
    "squeeze": (lambda s: (1, *s), lambda x, s: f"{x}.squeeze(0)"),
    "squeeze inside": (lambda s: (s[0], 1, *s[1:]), lambda x, s: f"torch.squeeze({x}, 1)"),
    "None": (_same, lambda x, s: f"{x}[None].squeeze(0)"),
    "expand": (_no_batch, lambda x, s: f"{x}.expand({s})"),
    "expand of 1": (_one_batch, lambda x, s: f"{x}.expand({s[0]}, {', '.join(['-1'] * (len(s) - 1))})"),
    "expand_as": (_one_batch, lambda x, s: f"{x}.expand_as(like)"),
    "broadcast_to": (_no_batch, lambda x, s: f"torch.broadcast_to({x}, {s})"),
    "repeat_interleave": (_repeated, lambda x, s: f"{x}.repeat_interleave(2, dim=1)"),
    "expand and reshape": (
        _repeated,
        lambda x, s: f"{x}[:, :, None].expand({s[0]}, {s[1] // 2}, 2, {s[2]}, {s[3]}).reshape({s})",
    ),
    "contiguous": (_same, lambda x, s: f"{x}.contiguous()"),
    "transpose and contiguous": (_swapped, lambda x, s: f"{x}.mT.contiguous()"),
}

# Source for a name and the number of its dimensions.
BELOW = {
    "transpose": lambda y, n: f"{y}.transpose(-1, -2)",
    "permute": lambda y, n: f"{y}.permute({_swap_last(n)})",
    "t": lambda y, n: f"{y}.t()" if n == 2 else None,
    "T": lambda y, n: f"{y}.T" if n == 2 else None,
    "mT": lambda y, n: f"{y}.mT",
    "H": lambda y, n: f"{y}.H" if n == 2 else None,
    "mH": lambda y, n: f"{y}.mH",
    "adjoint": lambda y, n: f"{y}.adjoint()",
    "movedim": lambda y, n: f"{y}.movedim(-1, -2)",
    "moveaxis": lambda y, n: f"torch.moveaxis({y}, -1, -2)",
    "swapaxes": lambda y, n: f"{y}.swapaxes(-1, -2)",
    "swapdims": lambda y, n: f"{y}.swapdims(-1, -2)",
    "reshape": lambda y, n: f"{y}.reshape(-1)",
    "ravel": lambda y, n: f"{y}.ravel()",
    "view": lambda y, n: f"{y}.view(-1, {y}.shape[-1])",
    "flatten": lambda y, n: f"{y}.flatten(-2)",
    "unflatten": lambda y, n: f"{y}.unflatten(-1, (2, -1))",
    "unsqueeze": lambda y, n: f"{y}.unsqueeze(1)",
    "None": lambda y, n: f"{y}[:, None]",
    "squeeze": lambda y, n: f"{y}.unsqueeze(0).squeeze(0)",
    "contiguous": lambda y, n: f"{y}.contiguous()",
    "transpose and contiguous": lambda y, n: f"{y}.mT.contiguous()",
}
# Those that put dimensions into another order, which strides show.
REORDERING = set(BELOW) - {"reshape", "ravel", "view", "flatten", "unflatten", "unsqueeze", "None", "squeeze"}
REORDERING -= {"contiguous", "transpose and contiguous"}
# Those that only exchange the last two dimensions of an operand.
TRANSPOSING = {name for name, (stored, _) in ABOVE.items() if stored in (_swapped, _swapped_matrix)}
TRANSPOSING -= {"transpose and contiguous"}
