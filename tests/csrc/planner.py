"""Compiles the planner alone, asks it for layouts, and carries a layout out on flat memory as cuBLAS would."""

import ctypes
import dataclasses
import itertools
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path

from numpy.lib.stride_tricks import as_strided

CSRC = Path(__file__).parents[2] / "csrc"
SOURCES = ("contraction.cc", "labels.cc", "epilogue.cc", "layout.cc", "chooser.cc", "cost.cc", "copies.cc")
OPERANDS = ("a", "b", "c", "out", "bias", "aux")
# csrc/epilogue.h
ACTIVATIONS = ("", "relu", "gelu", "relu_aux", "gelu_aux", "drelu", "dgelu")
BIAS_ROLES = ("none", "add", "grad_d", "grad_a", "grad_b")
Dims = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """One operand in column-major terms; strides in elements."""

    trans: int
    ld: int
    batch_stride: int


@dataclasses.dataclass(frozen=True)
class Loop:
    """A label outside matrix and batch: its size, and its stride in each tensor by name."""

    size: int
    stride: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Layout:
    """What csrc/layout.h describes; `reason` is empty unless declined. `more`: the layouts of later pieces."""

    rows: int
    cols: int
    k: int
    batch: int
    first_is_b: int
    pointers: int
    loops: tuple[Loop, ...]
    first: Matrix
    second: Matrix
    c: Matrix
    d: Matrix
    aux: Matrix
    offset: dict[str, int]
    view: str = ""
    reason: str = ""
    more: tuple["Layout", ...] = ()

    @property
    def steps(self) -> int:
        """Of all loops together."""
        return math.prod(loop.size for loop in self.loops)

    @property
    def calls(self) -> int:
        """How many calls this layout takes."""
        return 1 if self.pointers else self.steps

    def starts(self, name: str) -> list[int]:
        """Where each step of the loops starts in a tensor, in elements."""
        grids = itertools.product(*(range(loop.size) for loop in self.loops))
        return [self.offset[name] + sum(i * x.stride[name] for i, x in zip(at, self.loops)) for at in grids]


@dataclasses.dataclass(frozen=True)
class Demands:
    """csrc/layout.h's Demands."""

    k_innermost: bool = False
    operand_multiple: int = 1
    output_multiple: int = 1
    order_of_spec: bool = False
    pointer_arrays: bool = False


class Planner:
    """The planner in a shared library of its own, linked against nothing but the C++ runtime."""

    def __init__(self, folder: Path) -> None:
        target = folder / "libplanner.so"
        flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I", str(CSRC)]
        sources = [str(CSRC / name) for name in SOURCES] + [str(Path(__file__).with_name("driver.cc"))]
        subprocess.run(["g++", *flags, *sources, "-o", str(target)], check=True)
        self._lib = ctypes.CDLL(str(target))
        self._lib.cost.restype = self._lib.copy_cost.restype = ctypes.c_double
        self._lib.cost.argtypes = [ctypes.c_int64] * 5 + [ctypes.c_int]
        self._lib.copy_cost.argtypes = [ctypes.c_int64] * 2

    def plan(
        self,
        sizes,
        a: Dims,
        b: Dims,
        out: Dims,
        strides,
        bias: Dims | None = None,
        demands: Demands = Demands(),
        activation: str = "",
        role: str = "add",
    ) -> Layout:
        """The layout for strides {"a": ..., "b": ..., "out": ..., "bias": ...}; ValueError as csrc throws it."""
        words = _words(sizes, a, b, out, strides, bias, demands, activation, role)
        result, text = (ctypes.c_int64 * 1024)(), ctypes.create_string_buffer(256)
        status = self._lib.plan(words, result, text)
        said = text.value.decode()
        if status == 2:
            raise ValueError(said)
        values = iter(result)
        layouts = [_read(values) for _ in range(next(values))]
        first, *more = (dataclasses.replace(x, **({"reason": said} if status else {"view": said})) for x in layouts)
        return dataclasses.replace(first, more=tuple(more))

    def copies(self, sizes, a: Dims, b: Dims, out: Dims, strides, item_size: int = 4, demands: Demands = Demands()):
        """{"a": strides of the copy to make, or None, "b": ...}."""
        result = (ctypes.c_int64 * 64)()
        words = _words(sizes, a, b, out, strides, None, demands, "", "add")
        self._lib.copies(words, ctypes.c_int64(item_size), result)
        values = iter(result)
        found = {name: [next(values) for _ in range(next(values))] for name in "ab"}
        return {name: strides or None for name, strides in found.items()}

    def cost(self, rows: int, cols: int, k: int, batch: int = 1, steps: int = 1, pointers: bool = False) -> float:
        """What csrc/cost.h says of a layout."""
        return self._lib.cost(rows, cols, k, batch, steps, int(pointers))

    def copy_cost(self, elements: int, item_size: int) -> float:
        """What csrc/cost.h says of a copy."""
        return self._lib.copy_cost(elements, item_size)


def _words(sizes, a, b, out, strides, bias, demands, activation, role):
    words = _list(sizes)
    for dims in (a, b, out, bias or ()):
        words += [len(dims)]
        for dim in dims:
            words += _list(dim)
    words += [int(bias is not None), 1, ACTIVATIONS.index(activation), 1, BIAS_ROLES.index(role)]
    for name in ("a", "b", "out", "bias", "c", "aux"):
        words += [int(name in strides), *_list(strides.get(name, ()))]
    words += _list(dataclasses.astuple(demands))
    return (ctypes.c_int64 * len(words))(*words)


def _read(values) -> Layout:
    take = lambda n: [next(values) for _ in range(n)]  # noqa: E731
    head = take(6)
    loops = tuple(Loop(next(values), dict(zip(OPERANDS, take(6)))) for _ in range(next(values)))
    matrices = [Matrix(*take(3)) for _ in range(5)]
    return Layout(*head, loops, *matrices, dict(zip(OPERANDS, take(6))))


def _list(values) -> list[int]:
    return [len(values), *(int(v) for v in values)]


def carry_out(layout: Layout, a, b, out, c=None, bias=None, beta=0) -> None:
    """D = op(first) op(second) + beta C + bias for every matrix of every call, on one-dimensional arrays of memory."""
    first, second = (("b", b), ("a", a)) if layout.first_is_b else (("a", a), ("b", b))
    for part in (layout, *layout.more):
        for step in range(part.steps):
            x = _matrices(part, step, first, part.first, part.rows, part.k)
            y = _matrices(part, step, second, part.second, part.k, part.cols)
            product = x @ y
            if c is not None:
                product = product + beta * _matrices(part, step, ("c", c), part.c, part.rows, part.cols)
            if bias is not None:
                at = part.starts("bias")[step]
                product = product + bias[at : at + part.rows, None]
            _matrices(part, step, ("out", out), part.d, part.rows, part.cols)[...] = product


def _matrices(layout: Layout, step: int, named, matrix: Matrix, rows: int, cols: int):
    """[batch, rows, cols] of op(matrix). Asserts what cuBLAS demands: ld at least the stored rows, within memory."""
    name, memory = named
    assert matrix.ld >= (cols if matrix.trans else rows)
    steps = (matrix.ld, 1) if matrix.trans else (1, matrix.ld)
    shape, strides = (layout.batch, rows, cols), (matrix.batch_stride, *steps)
    start = layout.starts(name)[step]
    assert start + sum((n - 1) * s for n, s in zip(shape, strides)) < memory.size
    return as_strided(memory[start:], shape, [s * memory.itemsize for s in strides])
