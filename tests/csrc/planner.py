"""Compiles the planner alone, asks it for layouts, and carries a layout out on flat memory as cuBLAS would."""

import ctypes
import dataclasses
import subprocess
from collections.abc import Sequence
from pathlib import Path

from numpy.lib.stride_tricks import as_strided

CSRC = Path(__file__).parents[2] / "csrc"
SOURCES = ("contraction.cc", "labels.cc", "layout.cc")
Dims = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """One operand in column-major terms; strides in elements."""

    trans: int
    ld: int
    batch_stride: int
    loop_stride: int


@dataclasses.dataclass(frozen=True)
class Layout:
    """What csrc/layout.h describes; `reason` is empty unless declined."""

    rows: int
    cols: int
    k: int
    batch: int
    calls: int
    first_is_b: int
    first: Matrix
    second: Matrix
    c: Matrix
    d: Matrix
    view: str = ""
    reason: str = ""


class Planner:
    """The planner in a shared library of its own, linked against nothing but the C++ runtime."""

    def __init__(self, folder: Path) -> None:
        target = folder / "libplanner.so"
        flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I", str(CSRC)]
        sources = [str(CSRC / name) for name in SOURCES] + [str(Path(__file__).with_name("driver.cc"))]
        subprocess.run(["g++", *flags, *sources, "-o", str(target)], check=True)
        self._plan = ctypes.CDLL(str(target)).plan

    def plan(self, sizes, a: Dims, b: Dims, out: Dims, strides, bias: Dims | None = None) -> Layout:
        """The layout for strides {"a": ..., "b": ..., "out": ..., "bias": ..., "c": ...}; ValueError as csrc throws it."""
        words = _list(sizes)
        for dims in (a, b, out, bias or ()):
            words += [len(dims)]
            for dim in dims:
                words += _list(dim)
        words += [int(bias is not None), int("c" in strides)]
        for name in ("a", "b", "out", "bias", "c"):
            words += _list(strides.get(name, ()))
        result, text = (ctypes.c_int64 * 22)(), ctypes.create_string_buffer(256)
        status = self._plan((ctypes.c_int64 * len(words))(*words), result, text)
        said = text.value.decode()
        if status == 2:
            raise ValueError(said)
        values = list(result)
        matrices = [Matrix(*values[i : i + 4]) for i in range(6, 22, 4)]
        return Layout(*values[:6], *matrices, **({"reason": said} if status else {"view": said}))


def _list(values) -> list[int]:
    return [len(values), *(int(v) for v in values)]


def carry_out(layout: Layout, a, b, out, c=None, bias=None, beta=0) -> None:
    """D = op(first) op(second) + beta C + bias for every matrix of every call, on one-dimensional arrays of memory."""
    first, second = (b, a) if layout.first_is_b else (a, b)
    x = _matrices(layout, first, layout.first, layout.rows, layout.k)
    y = _matrices(layout, second, layout.second, layout.k, layout.cols)
    product = x @ y
    if c is not None:
        product = product + beta * _matrices(layout, c, layout.c, layout.rows, layout.cols)
    if bias is not None:
        product = product + bias[: layout.rows, None]
    _matrices(layout, out, layout.d, layout.rows, layout.cols)[...] = product


def _matrices(layout: Layout, memory, matrix: Matrix, rows: int, cols: int):
    """[calls, batch, rows, cols] of op(matrix). Asserts what cuBLAS demands: ld at least the stored rows, within memory."""
    assert matrix.ld >= (cols if matrix.trans else rows)
    steps = (matrix.ld, 1) if matrix.trans else (1, matrix.ld)
    shape = (layout.calls, layout.batch, rows, cols)
    strides = (matrix.loop_stride, matrix.batch_stride, *steps)
    last = sum((n - 1) * s for n, s in zip(shape, strides))
    assert last < memory.size
    return as_strided(memory, shape, [s * memory.itemsize for s in strides])
