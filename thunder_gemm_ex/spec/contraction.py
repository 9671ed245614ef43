"""The contraction spec: what a matmul computes, as labels on the dimensions of its stored tensors.

First room of the house: everything else speaks in these terms. Pure Python, knows neither torch nor thunder.

A tensor dimension is a tuple of *atoms*. An atom is an int that stands for one index of the contraction and has a
static size other than 1; a dimension of size 1 is the empty tuple, a dimension joined from several indices is a tuple
of several atoms, row-major (the last one innermost). A matmul is then only a statement about which atom stands where:

    x[a, b, k] @ w[n, k].T  ->  "a b k, n k -> a b n"

Atoms of both operands that the output lacks are summed (k), atoms of both and the output are batch, the others are m
(with a) and n (with b). Transposing, splitting, joining or dropping dimensions of a tensor rewrites its own list of
dimensions and nothing else, so folding a view into a contraction is one small function here, whatever the view.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

Atom = int
Dim = tuple[Atom, ...]
Dims = tuple[Dim, ...]


def atoms_of(dims: Iterable[Dim]) -> tuple[Atom, ...]:
    """The atoms of `dims` in memory order, outermost first."""
    return tuple(atom for dim in dims for atom in dim)


class SpecError(ValueError):
    """A spec that does not parse, or that does not fit its operands; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Contraction:
    """`out = a * b` summed over the atoms that `out` lacks, plus `bias` broadcast over the atoms that it lacks.

    `a`, `b`, `out`, `bias`: the dimensions of each stored tensor; `sizes`: the size of each atom (never 1).
    """

    a: Dims
    b: Dims
    out: Dims
    sizes: Mapping[Atom, int]
    bias: Dims | None = None

    # Mapping is not hashable and a frozen dataclass would hash it: specs are compared by what they print.
    def __hash__(self) -> int:
        return hash((self.a, self.b, self.out, self.bias))

    @functools.cached_property
    def k(self) -> tuple[Atom, ...]:
        """Summed atoms, in the order of a."""
        kept = set(atoms_of(self.out))
        return tuple(x for x in atoms_of(self.a) if x not in kept)

    @functools.cached_property
    def batch(self) -> tuple[Atom, ...]:
        """Atoms of both operands and the output, in the order of the output."""
        both = set(atoms_of(self.a)) & set(atoms_of(self.b))
        return tuple(x for x in atoms_of(self.out) if x in both)

    @functools.cached_property
    def m(self) -> tuple[Atom, ...]:
        """Atoms of a and the output only, in the order of the output."""
        ours, theirs = set(atoms_of(self.a)), set(atoms_of(self.b))
        return tuple(x for x in atoms_of(self.out) if x in ours and x not in theirs)

    @functools.cached_property
    def n(self) -> tuple[Atom, ...]:
        """Atoms of b and the output only, in the order of the output."""
        ours, theirs = set(atoms_of(self.b)), set(atoms_of(self.a))
        return tuple(x for x in atoms_of(self.out) if x in ours and x not in theirs)

    def extent(self, atoms: Iterable[Atom]) -> int:
        """The number of index values of `atoms` together."""
        return math.prod(self.sizes[x] for x in atoms)

    def shape(self, dims: Dims) -> tuple[int, ...]:
        """The shape of a tensor with these dimensions."""
        return tuple(self.extent(dim) for dim in dims)

    @property
    def flops(self) -> int:
        """Multiply-adds counted as two operations: 2 * batch * m * n * k."""
        return 2 * self.extent(self.batch + self.m + self.n + self.k)

    def layout(self) -> str:
        """ "NN", "NT", "TN" or "TT" as PyTorch reads it: T where an operand is stored with k outside of m or n.

        An operand whose k or m/n atoms have no size, or interleave, has no such order and shows as "N" or "*".
        """
        return _orientation(self.a, self.m, self.k) + _orientation(self.b, self.k, self.n)

    def check(self) -> None:
        """Raise SpecError unless every atom has a legal place: what the parser promises and every rewrite keeps."""
        seen = {name: atoms_of(dims) for name, dims in self.tensors()}
        a, b, out = set(seen["a"]), set(seen["b"]), set(seen["out"])
        faults = {
            "an atom stands twice in a tensor": any(len(set(atoms)) != len(atoms) for atoms in seen.values()),
            "an atom of the output is in neither operand": bool(out - (a | b)),
            "an atom stands in one operand alone": bool((a ^ b) - out),
            "an atom of the bias is not in the output": bool(set(seen.get("bias", ())) - out),
        }
        for fault, present in faults.items():
            if present:
                raise SpecError(f"{fault}: {dict(self.tensors())}")

    def tensors(self) -> tuple[tuple[str, Dims], ...]:
        """(name, dimensions) of every tensor: a, b, the bias if there is one, out."""
        bias = () if self.bias is None else (("bias", self.bias),)
        return (("a", self.a), ("b", self.b), *bias, ("out", self.out))

    def with_bias(self, dims: Dims) -> Contraction:
        """The same contraction with a bias of these dimensions."""
        return dataclasses.replace(self, bias=dims)

    def swap(self) -> Contraction:
        """The same contraction with a and b exchanged."""
        return dataclasses.replace(self, a=self.b, b=self.a)

    def grad_a(self) -> Contraction:
        """dgrad: of "m k, k n -> m n" the contraction "m n, k n -> m k" of the output's gradient and b."""
        return Contraction(self.out, self.b, self.a, self.sizes)

    def grad_b(self) -> Contraction:
        """wgrad: of "m k, k n -> m n" the contraction "m k, m n -> k n" of a and the output's gradient."""
        return Contraction(self.a, self.out, self.b, self.sizes)

    def __str__(self) -> str:
        from thunder_gemm_ex.spec.notation import print_spec  # notation imports this module

        return print_spec(self)


def _orientation(dims: Dims, rows: Sequence[Atom], cols: Sequence[Atom]) -> str:
    order = [x for x in atoms_of(dims) if x in set(rows) | set(cols)]
    kinds = [x in set(cols) for x in order]
    if kinds == sorted(kinds):
        return "N"
    return "T" if kinds == sorted(kinds, reverse=True) else "*"


def plain(shapes: Sequence[Sequence[int]], *, transposed_b: bool = False) -> Contraction:
    """torch.matmul of operands with `shapes` (two, or three with a linear's bias), batch dimensions broadcast.

    With `transposed_b`, b is stored [n, k], as the weight of torch.nn.functional.linear is.
    The shapes must multiply: eager's error for those that do not comes from Thunder before this is asked.
    """
    names = _Fresh()
    a_rank, b_rank = len(shapes[0]), len(shapes[1])
    k = names.dim(shapes[0][-1])
    a_batch, b_batch = shapes[0][:-2], () if b_rank < 2 else shapes[1][:-2]
    m = names.dim(shapes[0][-2]) if a_rank > 1 else ()
    n = () if b_rank < 2 else names.dim(shapes[1][-2 if transposed_b else -1])
    a_dims, b_dims, out_dims = _broadcast(names, a_batch, b_batch)
    a = (*a_dims, *([m] if a_rank > 1 else []), k)
    b = (k,) if b_rank < 2 else (*b_dims, *((n, k) if transposed_b else (k, n)))
    out = (*out_dims, *([m] if a_rank > 1 else []), *([n] if b_rank > 1 else []))
    bias = None
    if len(shapes) == 3:
        bias = (n,) if len(shapes[2]) else ()
    return Contraction(a, b, out, names.sizes, bias)


def convolution(shapes: Sequence[Sequence[int]]) -> Contraction:
    """A convolution with x [b, c, ...] or [c, ...], weight [o, c, ...], perhaps bias [o], that is a contraction.

    Each dimension of its windows is 1, for every element of the input, or the whole input's, which is summed.
    """
    names = _Fresh()
    x, weight = shapes[0], shapes[1]
    lead = tuple(names.dim(s) for s in x[: len(x) - len(weight) + 1])
    c, o = names.dim(weight[1]), names.dim(weight[0])
    space = tuple(names.dim(s) for s in x[len(lead) + 1 :])
    windows = tuple(() if window == 1 else dim for window, dim in zip(weight[2:], space))
    left = tuple(dim if window == 1 else () for window, dim in zip(weight[2:], space))
    bias = (o,) if len(shapes) == 3 else None
    return Contraction((*lead, c, *space), (o, c, *windows), (*lead, o, *left), names.sizes, bias)


class _Fresh:
    """Hands out new atoms; a dimension of size 1 gets none."""

    def __init__(self) -> None:
        self.sizes: dict[Atom, int] = {}

    def dim(self, size: int) -> Dim:
        if size == 1:
            return ()
        self.sizes[len(self.sizes)] = int(size)
        return (len(self.sizes) - 1,)


def _broadcast(names: _Fresh, a: Sequence[int], b: Sequence[int]) -> tuple[list[Dim], list[Dim], list[Dim]]:
    """Batch dimensions under PyTorch's broadcasting rules: a dimension of size 1 has no atom, so it only lacks it."""
    rank = max(len(a), len(b))
    out = []
    for i in range(rank):
        sizes = [shape[i - rank] if i >= rank - len(shape) else 1 for shape in (a, b)]
        out.append(names.dim(next((s for s in sizes if s != 1), 1)))
    at = [[out[rank - len(shape) + i] if size != 1 else () for i, size in enumerate(shape)] for shape in (a, b)]
    return at[0], at[1], out
