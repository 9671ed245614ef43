"""What the shapes of a call say about its spec: the size of every label, the output's shape, and the bias's labels.

Sizes may be symbolic (torch.compile, torch.export): then they stay symbols, and what must hold becomes a guard.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from thunder_gemm_ex.operator.labels import Dims, gradient_dims, label_bias, names_of, pattern_of, untold, write
from thunder_gemm_ex.spec import Pattern, SpecError

Shape = Sequence[Any]  # of int or torch.SymInt


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A call's spec with its bias labelled, the size of every label by name, and the output's shape."""

    text: str
    sizes: Mapping[str, Any]
    shape: tuple[Any, ...]


def resolve(text: str, a: Shape, b: Shape, bias: Shape | None) -> Resolved:
    """Fit the spec to shapes. SpecError names the tensor whose shape does not fit, and what would."""
    try:
        return _resolve_static(text, a, b, bias)
    except TypeError:  # a symbolic size has no hash
        return _resolve(text, tuple(a), tuple(b), None if bias is None else tuple(bias))


def _resolve(text: str, a: Shape, b: Shape, bias: Shape | None) -> Resolved:
    pattern = pattern_of(text)
    if pattern.bias is not None and bias is None:
        raise SpecError(f"the spec '{text}' labels a bias, but bias is None")
    labelled: dict[str, Shape] = {"a": a, "b": b}
    if pattern.bias is not None and bias is not None:
        labelled["bias"] = bias
    sizes = label_sizes(pattern, labelled)
    shape = shape_of(pattern.out, sizes)
    if bias is not None and pattern.bias is None:
        text = label_bias(text, _repeated(text, bias, shape))
    return Resolved(text, sizes, shape)


_resolve_static = functools.lru_cache(maxsize=1024)(_resolve)


def _repeated(text: str, bias: Shape, shape: Shape) -> list[bool]:
    pairs = list(zip(bias, shape[len(shape) - len(bias) :])) if len(bias) <= len(shape) else [(0, 1)]
    if not all(x == 1 or x == y for x, y in pairs):
        raise SpecError(
            f"bias of shape {tuple(bias)} does not broadcast to the output's shape {tuple(shape)} of the spec '{text}'"
        )
    return [bool(x == 1 and y != 1) for x, y in pairs]


def shape_of(dims: Dims, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape of a tensor with these dimensions."""
    return tuple(extent(dim, sizes) for dim in dims)


def extent(names: Sequence[str], sizes: Mapping[str, Any]) -> Any:
    """The product of the sizes of these labels; 1 for none. Not math.prod: one symbol stays itself."""
    size: Any = 1
    for name in names:
        size = sizes[name] if type(size) is int and size == 1 else size * sizes[name]
    return size


def label_sizes(pattern: Pattern, shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The size of every label of the pattern on tensors with these shapes, by name."""
    if all(type(size) is int for shape in shapes.values() for size in shape):
        pattern.bind(shapes["a"], shapes["b"], shapes.get("bias"))  # raises, in the spec's own words
    sizes: dict[str, Any] = dict(pattern.stated)
    for name, shape in shapes.items():
        dims = getattr(pattern, name)
        if len(dims) != len(shape):
            raise SpecError(
                f"{name} has shape {tuple(shape)}, {len(shape)} dimension(s), where the spec '{pattern.text}' "
                f"gives it {len(dims)}"
            )
    todo = [
        (name, tuple(dim), size) for name, shape in shapes.items() for dim, size in zip(getattr(pattern, name), shape)
    ]
    while todo:
        rest = [item for item in todo if not _solve(pattern, *item, sizes)]
        if len(rest) == len(todo):
            raise SpecError(
                f"the size of a label of {rest[0][1]} in the spec '{pattern.text}' cannot be told: state it"
            )
        todo = rest
    return sizes


def _solve(pattern: Pattern, name: str, dim: Sequence[str], size: Any, sizes: dict[str, Any]) -> bool:
    unknown = [n for n in dim if n not in sizes]
    if len(unknown) > 1:
        return False
    known = extent([n for n in dim if n in sizes], sizes)
    if len(dim) == len(unknown) == 1:
        sizes[unknown[0]] = size
        return True
    fits = size % known == 0 if unknown else known == size
    torch._check(
        fits,
        lambda: (
            f"dimension '{' '.join(dim) or '1'}' of {name} in the spec '{pattern.text}' has size {size}, which does not "
            f"agree with {known} from the other operands and stated sizes"
        ),
    )
    if unknown:
        sizes[unknown[0]] = size // known
    return True


def stated_sizes(missing: Sequence[str], dims: Sequence[Dims], sizes: Mapping[str, Any]) -> dict[str, int]:
    """What a derived text has to state: labels that its shapes do not tell, and those beside a size of 0."""
    # With a label of size 0 in it a joined dimension tells nothing of its other labels.
    joined = [dim for tensor in dims for dim in tensor if len(dim) > 1]
    empty = [n for dim in joined if any(type(sizes[x]) is int and sizes[x] == 0 for x in dim) for n in dim]
    return {name: int(sizes[name]) for name in dict.fromkeys([*missing, *empty])}


def product_text(fitted: Resolved) -> str:
    """The spec without its bias, with the sizes stated that only the bias told."""
    p = pattern_of(fitted.text)
    return write(p.a, p.b, p.out, None, stated_sizes(untold(p.a, p.b), (p.a, p.b), fitted.sizes))


def gradient_text(fitted: Resolved, operand: str) -> str:
    """The spec that gives the gradient of `operand`, with the sizes stated that its shapes do not tell."""
    a, b, out, missing = gradient_dims(fitted.text, operand)
    return write(a, b, out, None, stated_sizes(missing, (a, b), fitted.sizes))


def summed_to(x: torch.Tensor, dims: Dims, wanted: Dims, sizes: Mapping[str, Any]) -> torch.Tensor:
    """`x`, labelled `dims`, summed over the labels that `wanted` lacks, with the dimensions `wanted`: a bias's gradient."""
    labels, kept = names_of(dims), names_of(wanted)
    gone = [i for i, name in enumerate(labels) if name not in kept]
    x = x.reshape([sizes[name] for name in labels])
    x = x.sum(gone) if gone else x
    left = [name for name in labels if name in kept]
    return _permuted(x, [left.index(name) for name in kept]).reshape(shape_of(wanted, sizes))


def spread_to(x: torch.Tensor, dims: Dims, wanted: Dims, sizes: Mapping[str, Any]) -> torch.Tensor:
    """`x`, labelled `dims`, repeated over the labels of `wanted` that it lacks, with the dimensions `wanted`: a bias."""
    mine, labels = names_of(dims), names_of(wanted)
    x = x.reshape([sizes[name] for name in mine])
    x = _permuted(x, [mine.index(name) for name in labels if name in mine])
    x = x.reshape([sizes[name] if name in mine else 1 for name in labels])
    return x.expand([sizes[name] for name in labels]).reshape(shape_of(wanted, sizes))


def _permuted(x: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    # A permute that moves nothing would stand in every compiled graph.
    return x if list(order) == sorted(order) else x.permute(list(order))
