"""Random contractions on integer memory, their exact results, and every layout that the rules allow, found by search."""

import dataclasses
import itertools

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.csrc.planner import Dims, Layout, carry_out

MAX_CALLS = 64


@dataclasses.dataclass
class Tensor:
    """Memory, and the strides in elements with which dims of atoms lie in it."""

    dims: Dims
    strides: list[int]
    memory: np.ndarray

    def by_atoms(self, sizes):
        """(values with one axis an atom, the atoms)."""
        shape = [int(np.prod([sizes[x] for x in dim])) for dim in self.dims]
        view = as_strided(self.memory, shape, [s * self.memory.itemsize for s in self.strides])
        atoms = [x for dim in self.dims for x in dim]
        return view.reshape([sizes[x] for x in atoms]), atoms

    def atom_strides(self, sizes) -> dict[int, int]:
        """The stride of every atom; the last atom of a dimension has the dimension's."""
        found = {}
        for dim, stride in zip(self.dims, self.strides):
            for atom in reversed(dim):
                found[atom] = stride
                stride *= sizes[atom]
        return found


def make_tensor(rng, dims, sizes, order=None, pad=0, expand=0.0) -> Tensor:
    """Dimensions in the memory order `order` (random if None), each padded by up to `pad`, expanded with probability."""
    extents = [int(np.prod([sizes[x] for x in dim])) for dim in dims]
    order = list(rng.permutation(len(dims))) if order is None else list(order)
    strides, step = [0] * len(dims), 1
    for i in reversed(order):
        if rng.random() < expand:
            continue
        strides[i] = step
        step *= extents[i] + int(rng.integers(0, pad + 1))
    size = 1 + sum((n - 1) * s for n, s in zip(extents, strides))
    return Tensor(dims, strides, rng.integers(-4, 5, size=size).astype(np.float64))


def random_dims(rng, atoms) -> list[list[int]]:
    """The atoms in random order, some joined to one dimension, sometimes a dimension of size 1 between."""
    dims: list[list[int]] = []
    for atom in rng.permutation(list(atoms)):
        if dims and rng.random() < 0.15:
            dims[-1].append(int(atom))
        else:
            dims.append([int(atom)])
        if rng.random() < 0.05:
            dims.append([])
    return dims


@dataclasses.dataclass
class Problem:
    """One contraction and its tensors."""

    sizes: list[int]
    a: Tensor
    b: Tensor
    out: Tensor
    bias: Tensor | None = None
    c: Tensor | None = None

    def layout(self, planner, **options) -> Layout:
        """What the planner says."""
        tensors = {"a": self.a, "b": self.b, "out": self.out, "bias": self.bias, "c": self.c}
        strides = {name: t.strides for name, t in tensors.items() if t is not None}
        bias = None if self.bias is None else self.bias.dims
        return planner.plan(self.sizes, self.a.dims, self.b.dims, self.out.dims, strides, bias, **options)

    def assert_right(self, layout: Layout) -> None:
        """Exact, and nothing is written beside the output."""
        beta = 3 if self.c is not None else 0
        memory = np.full_like(self.out.memory, np.nan)
        c = None if self.c is None else self.c.memory
        bias = None if self.bias is None else self.bias.memory
        carry_out(layout, self.a.memory, self.b.memory, memory, c, bias, beta)
        got, atoms = Tensor(self.out.dims, self.out.strides, memory).by_atoms(self.sizes)
        np.testing.assert_array_equal(got, self.expected(atoms, beta))
        assert np.count_nonzero(~np.isnan(memory)) == got.size

    def expected(self, atoms, beta):
        """The exact result with one axis an atom of `atoms`."""
        args = [x for t in (self.a, self.b) for x in t.by_atoms(self.sizes)]
        total = np.einsum(*args, atoms)
        for tensor, factor in ((self.c, beta), (self.bias, 1)):
            if tensor is None:
                continue
            values, mine = tensor.by_atoms(self.sizes)
            order = [mine.index(x) for x in atoms if x in mine]
            values = values.transpose(order)
            total = total + factor * values.reshape([self.sizes[x] if x in mine else 1 for x in atoms])
        return total


def random_problem(rng, bias=False, c=False) -> Problem:
    """Two to five atoms of random classes and sizes 1 to 4."""
    count = int(rng.integers(2, 6))
    sizes = [int(n) for n in rng.choice([1, 2, 3, 4], size=count, p=[0.15, 0.35, 0.3, 0.2])]
    kinds = [("a", "out"), ("b", "out"), ("a", "b"), ("a", "b", "out")]
    member = [kinds[int(i)] for i in rng.integers(0, 4, size=count)]
    atoms = {name: [i for i in range(count) if name in member[i]] for name in ("a", "b", "out")}
    pad, expand = int(rng.integers(0, 3)), float(rng.choice([0.0, 0.0, 0.2]))
    a, b = (make_tensor(rng, random_dims(rng, atoms[n]), sizes, pad=pad, expand=expand) for n in ("a", "b"))
    out = make_tensor(rng, random_dims(rng, atoms["out"]), sizes, pad=pad if rng.random() < 0.3 else 0)
    problem = Problem(sizes, a, b, out)
    if bias:
        some = [x for x in atoms["out"] if rng.random() < 0.5]
        problem.bias = make_tensor(rng, random_dims(rng, some), sizes)
    if c:
        problem.c = make_tensor(rng, out.dims, sizes, order=np.argsort(out.strides)[::-1], pad=pad, expand=expand / 2)
    return problem


# The rules once more, by search over all ways to share the labels out -------------------------------------------------


def fewest_calls(problem: Problem) -> int | None:
    """The fewest calls of any layout that the rules allow, None where they allow none. Shares no code with csrc."""
    sizes = problem.sizes
    atoms = [x for x in range(len(sizes)) if sizes[x] > 1]
    stride, m, n, k = _classes(problem, atoms)

    def chain(group):
        """The group as one label {tensor: inner stride}, or None. The empty group is a label of size 1."""
        for order in itertools.permutations(group):
            if all(stride[t][x] == stride[t][y] * sizes[y] for x, y in itertools.pairwise(order) for t in stride):
                return {t: stride[t][order[-1]] if order else 0 for t in stride}, int(
                    np.prod([sizes[x] for x in order])
                )
        return None

    def ld_ok(t, outer, inner):
        (so, no), (si, ni) = ((g[0][t], g[1]) for g in (outer, inner))
        return (ni == 1 or si == 1) and (no == 1 or so >= ni)

    best = None
    summed = chain(sorted(k))
    if summed is None:
        return None
    for lefts, rights, left, right in ((m, n, "a", "b"), (n, m, "b", "a")):
        for outer_group, inner_group in itertools.product(_nonempty(lefts), _nonempty(rights)):
            outer, inner = chain(outer_group), chain(inner_group)
            if outer is None or inner is None or not (ld_ok("out", outer, inner) and ld_ok("c", outer, inner)):
                continue
            if not (ld_ok(left, outer, summed) or ld_ok(left, summed, outer)):
                continue
            if not (ld_ok(right, summed, inner) or ld_ok(right, inner, summed)):
                continue
            if _thin(sizes, lefts, outer[1]) or _thin(sizes, rights, inner[1]):
                continue
            rest = [x for x in atoms if x not in k and x not in outer_group and x not in inner_group]
            if "bias" in stride:
                along = inner[1] == 1 or inner[0]["bias"] == 1
                if not along or any(stride["bias"][x] for x in atoms if x not in inner_group):
                    continue
            for looped in _subsets(rest):
                calls = int(np.prod([sizes[x] for x in looped]))
                merged = chain([x for x in rest if x not in looped])
                if merged and calls <= MAX_CALLS and (best is None or calls < best):
                    best = calls
    return best


def _thin(sizes, group, side) -> bool:
    """A gemv in disguise: of a side at least 8 times as large, less than 8 is in the matrix."""
    return side < 8 and bool(group) and int(np.prod([sizes[x] for x in group])) >= 8 * side


def _classes(problem: Problem, atoms):
    """({tensor: {atom: stride, 0 if absent}}, the m, n and k atoms)."""
    tensors = {"a": problem.a, "b": problem.b, "out": problem.out, "c": problem.c or problem.out}
    if problem.bias is not None:
        tensors["bias"] = problem.bias
    at = {name: t.atom_strides(problem.sizes) for name, t in tensors.items()}
    a, b, out = ({x for x in atoms if x in at[name]} for name in ("a", "b", "out"))
    return {name: {x: at[name].get(x, 0) for x in atoms} for name in at}, a - b, b - a, (a & b) - out


def _subsets(items):
    items = sorted(items)
    return [c for r in range(len(items) + 1) for c in itertools.combinations(items, r)]


def _nonempty(items):
    return [c for c in _subsets(items) if c] or [()]
