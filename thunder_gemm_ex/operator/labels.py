"""Specs that follow from a spec, on labels alone: of its gradients, of a batch of it, of it with a bias labelled.

Pure Python on parsed patterns: no shapes, so that a derived spec is made once for each text and serves every size.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from thunder_gemm_ex.spec import Pattern, parse

Dims = Sequence[Sequence[str]]
# Labels that a vmap adds; the first that the spec does not use yet.
_BATCH_LABELS = ("v", "vv", "vvv", "vvvv")


@functools.lru_cache(maxsize=4096)
def pattern_of(text: str) -> Pattern:
    """The parsed spec. SpecError says what is wrong with it and at which character."""
    return parse(text)


def bias_of(pattern: Pattern) -> Dims:
    """The labels of the bias of a spec that has one."""
    assert pattern.bias is not None, pattern.text
    return pattern.bias


def names_of(dims: Iterable[Sequence[str]]) -> list[str]:
    """The labels of `dims` in memory order."""
    return [name for dim in dims for name in dim]


def write(a: Dims, b: Dims, out: Dims, bias: Dims | None = None, stated: Mapping[str, int] | None = None) -> str:
    """The text of a spec; each size of `stated` is given where its label first stands."""
    left = dict(stated or {})

    def label(name: str) -> str:
        size = left.pop(name, None)
        return name if size is None else f"{name}:{size}"

    def dim(names: Sequence[str]) -> str:
        shown = [label(n) for n in names]
        return "1" if not shown else shown[0] if len(shown) == 1 else f"({' '.join(shown)})"

    inputs = [" ".join(map(dim, dims)) for dims in ((a, b) if bias is None else (a, b, bias))]
    return f"{', '.join(inputs)} -> {' '.join(map(dim, out))}".rstrip()


def untold(*inputs: Dims) -> tuple[str, ...]:
    """Labels whose sizes the shapes of tensors with these dimensions do not tell: to be stated in a text."""
    dims = [tuple(dim) for tensor in inputs for dim in tensor]
    told: set[str] = set()
    stated: list[str] = []
    while True:
        while solved := [n for dim in dims for n in dim if n not in told and sum(x not in told for x in dim) == 1]:
            told.update(solved)
        left = next((n for dim in dims for n in dim if n not in told), None)
        if left is None:
            return tuple(stated)
        stated.append(left)
        told.add(left)


@functools.lru_cache(maxsize=4096)
def gradient_dims(text: str, operand: str) -> tuple[Dims, Dims, Dims, tuple[str, ...]]:
    """(a, b, out, untold labels) of the contraction that gives the gradient of `operand` ("a" or "b").

    Of "m k, k n -> m n" that is "m n, k n -> m k" (dgrad, of the output's gradient and b) or "m k, m n -> k n" (wgrad).
    """
    p = pattern_of(text)
    a, b, out = (p.out, p.b, p.a) if operand == "a" else (p.a, p.out, p.b)
    return a, b, out, untold(a, b)


@functools.lru_cache(maxsize=4096)
def batched(text: str, a: int | None, b: int | None, bias: int | None) -> tuple[str, int]:
    """(the spec with a label more, where that stands in the output): vmap over these dimensions of the stored tensors.

    The label goes in front of the output, or in front of what is n where only b has it and stores it just outside its n:
    then b's batch and n stay one dimension of one GEMM.
    """
    p = pattern_of(text)
    used = names_of([*p.a, *p.b, *p.out])
    label = next(name for name in _numbered() if name not in used)
    at = _beside_n(p, b) if a is None and b is not None else 0
    new_a, new_b, new_out = (_insert(dims, where, label) for dims, where in ((p.a, a), (p.b, b), (p.out, at)))
    new_bias = None if p.bias is None else _insert(p.bias, bias, label)
    return write(new_a, new_b, new_out, new_bias, dict(p.stated)), at


def _numbered() -> Iterable[str]:
    yield from _BATCH_LABELS
    yield from (f"v{i}" for i in range(1, 1 << 30))


def _insert(dims: Dims, where: int | None, label: str) -> Dims:
    return tuple(dims) if where is None else (*dims[:where], (label,), *dims[where:])


def _beside_n(p: Pattern, where: int) -> int:
    in_a = set(names_of(p.a))
    inner = p.b[where] if where < len(p.b) else ()
    if not inner or in_a & set(inner):
        return 0
    return next((i for i, dim in enumerate(p.out) if tuple(dim) == tuple(inner)), 0)


def label_bias(text: str, repeated: Sequence[bool]) -> str:
    """The spec with a third input for a bias on the output's last dimensions; where `repeated`, its size is 1 there."""
    p = pattern_of(text)
    last = p.out[len(p.out) - len(repeated) :]
    bias = [() if again else tuple(dim) for again, dim in zip(repeated, last)]
    return write(p.a, p.b, p.out, bias, dict(p.stated))
