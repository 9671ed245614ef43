"""Every operation that is a matmul: the ways of writing it, and the shapes that its tests use."""

import dataclasses
import itertools
import operator
from collections.abc import Callable

import torch

F = torch.nn.functional


@dataclasses.dataclass(frozen=True)
class Op:
    """An operation on tensors of `shapes` (one tuple of shapes a case); `ways` are functions that all mean it."""

    name: str
    ways: dict[str, Callable]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    # Whether it is stated for complex tensors too, or left to Thunder with a row.
    complex: bool = True

    @property
    def function(self) -> Callable:
        """The first way."""
        return next(iter(self.ways.values()))


def _matmul_shapes():
    ranks = {1: (4,), 2: (3, 4), 3: (2, 3, 4), 4: (5, 2, 3, 4)}
    for a, b in itertools.product(ranks.values(), ranks.values()):
        yield a, b if len(b) == 1 else (*b[:-2], 4, 6)
    yield from [((1, 3, 4), (2, 4, 6)), ((2, 1, 3, 4), (5, 4, 6)), ((2, 3, 4), (1, 4, 6)), ((3, 1), (1, 6))]


def _method(name):
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


def _both(name, **kwargs):
    """The function and the method of torch that have the same name and arguments."""
    function, method = getattr(torch, name), _method(name)
    return {
        f"torch.{name}": lambda *args: function(*args, **kwargs),
        f"Tensor.{name}": lambda *args: method(*args, **kwargs),
    }


def _einsum(*texts, shapes):
    for text, cases in zip(texts, shapes):
        yield Op(f"einsum {text}", {"torch.einsum": lambda *args, text=text: torch.einsum(text, *args)}, (cases,))


def _sublists(a, b):
    return torch.einsum(a, [0, 1, 2], b, [0, 2, 3], [1, 0, 3])


_TERMS = {"": {}, " scaled": {"beta": 0.5, "alpha": 2}, " negative": {"alpha": -1}, " beta=0": {"beta": 0}}
_ADDING = {
    "addmm": (((6,), (3, 4), (4, 6)), ((3, 6), (3, 4), (4, 6)), ((3, 1), (3, 4), (4, 6)), ((1, 6), (3, 4), (4, 6))),
    "addmv": (((3,), (3, 4), (4,)),),
    "baddbmm": (((2, 3, 6), (2, 3, 4), (2, 4, 6)), ((6,), (2, 3, 4), (2, 4, 6)), ((2, 1, 6), (2, 3, 4), (2, 4, 6))),
    "addbmm": (((3, 6), (2, 3, 4), (2, 4, 6)), ((6,), (2, 3, 4), (2, 4, 6))),
}
_CONVOLUTIONS = {
    1: ((2, 3, 7), (5, 3, 1)),
    2: ((2, 3, 4, 6), (5, 3, 1, 1)),
    3: ((2, 3, 2, 4, 3), (5, 3, 1, 1, 1)),
}

OPS = [
    Op(
        "matmul",
        _both("matmul") | {"@": lambda a, b: a @ b, "operator.matmul": operator.matmul, "linalg": torch.linalg.matmul},
        tuple(_matmul_shapes()),
    ),
    Op(
        "linear",
        {"F.linear": F.linear, "torch._C._nn.linear": torch._C._nn.linear},
        (((3, 4), (6, 4)), ((2, 3, 4), (6, 4)), ((4,), (6, 4)), ((2, 3, 4), (6, 4), (6,)), ((3, 4), (6, 4), (6,))),
    ),
    Op("bmm", _both("bmm"), (((2, 3, 4), (2, 4, 6)),)),
    Op("mm", _both("mm"), (((3, 4), (4, 6)),), complex=False),
    Op("mv", _both("mv"), (((3, 4), (4,)),), complex=False),
    Op("dot", _both("dot"), (((4,), (4,)),), complex=False),
    Op("vdot", _both("vdot"), (((4,), (4,)),), complex=False),
    Op("inner", _both("inner"), (((4,), (4,)), ((3, 4), (6, 4)), ((2, 3, 4), (6, 4)), ((3, 4), (4,)))),
    Op("outer", _both("outer"), (((3,), (6,)),)),
    Op("ger", _both("ger"), (((3,), (6,)),)),
    *(
        Op(name + suffix, _both(name, **terms), shapes, complex=False)
        for (name, shapes), (suffix, terms) in itertools.product(_ADDING.items(), _TERMS.items())
    ),
    Op("tensordot 1", {"torch.tensordot": lambda a, b: torch.tensordot(a, b, dims=1)}, (((2, 3, 4), (4, 6)),)),
    Op("tensordot 2", {"torch.tensordot": lambda a, b: torch.tensordot(a, b, 2)}, (((2, 3, 4), (3, 4, 6)),)),
    Op("tensordot 0", {"torch.tensordot": lambda a, b: torch.tensordot(a, b, dims=0)}, (((2, 3), (4,)),)),
    Op(
        "tensordot lists",
        {"torch.tensordot": lambda a, b: torch.tensordot(a, b, dims=([0, 2], [2, 0]))},
        (((3, 2, 4), (4, 6, 3)),),
    ),
    Op("einsum lists", {"torch.einsum": _sublists}, (((2, 3, 4), (2, 4, 6)),)),
    *_einsum(
        "mk,kn->mn",
        "mk,nk->nm",
        "bhmk,bhnk->bhmn",
        "bmhk,bnhk->bhmn",
        "...mk,...kn->...mn",
        "ij,ij->",
        "ij,ij->j",
        "i,j->ij",
        "ij,j",
        "abc,cd->da",
        "ab,bc,cd->ad",
        "ab,ac,ad->bcd",
        "i,i,i->i",
        shapes=[
            ((3, 4), (4, 6)),
            ((3, 4), (6, 4)),
            ((2, 5, 3, 4), (2, 5, 6, 4)),
            ((2, 3, 5, 4), (2, 6, 5, 4)),
            ((2, 3, 4), (1, 4, 6)),
            ((3, 4), (3, 4)),
            ((3, 4), (3, 4)),
            ((3,), (4,)),
            ((3, 4), (4,)),
            ((3, 5, 4), (4, 6)),
            ((3, 4), (4, 5), (5, 6)),
            ((3, 4), (3, 5), (3, 6)),
            ((4,), (4,), (4,)),
        ],
    ),
    Op("chain_matmul", {"torch.chain_matmul": torch.chain_matmul}, (((3, 4), (4, 6)), ((3, 4), (4, 5), (5, 6)))),
    Op(
        "multi_dot",
        {"torch.linalg.multi_dot": lambda *args: torch.linalg.multi_dot(args)},
        (((3, 4), (4, 6)), ((3, 4), (4, 5), (5, 6)), ((4,), (4, 5), (5,)), ((2, 3), (3, 4), (4, 5), (5, 6))),
    ),
    Op(
        "bilinear",
        {"F.bilinear": F.bilinear},
        (((3, 4), (3, 5), (6, 4, 5)), ((2, 3, 4), (2, 3, 5), (2, 4, 5), (2,)), ((4,), (5,), (6, 4, 5))),
        complex=False,
    ),
    *(
        Op(
            f"conv{n}d",
            {f"F.conv{n}d": getattr(F, f"conv{n}d"), f"torch.conv{n}d": getattr(torch, f"conv{n}d")},
            shapes,
        )
        for n, (x, w) in _CONVOLUTIONS.items()
        for shapes in [((x, w), (x, w, w[:1]))]
    ),
]
BY_NAME = {op.name: op for op in OPS}

# (name, way, shapes) of everything above, as parameters of a test.
CASES = [(op, way, shapes) for op in OPS for way in op.ways for shapes in op.shapes]


def named(case):
    """A readable name for parameters of a test."""
    return " ".join(x.name if isinstance(x, Op) else str(x) for x in case)
