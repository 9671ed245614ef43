"""Asking eager PyTorch: what it says to operands that cannot multiply, and which steps it takes for those that can."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from thunder.core.dtypes import to_torch_dtype
from thunder.core.proxies import TensorProxy
from thunder.core.pytree import tree_flatten, tree_map
from torch.utils._python_dispatch import TorchDispatchMode

# Eager is asked with tensors of one repeated element, but may copy them before it looks: not beyond this many elements.
_MAX_ELEMENTS = 1 << 24


class Unstated(Exception):
    """This call is not restated as matmuls and views: Thunder records it as it does without this executor."""


def tensors(*values: Any) -> list[TensorProxy]:
    """The tensor proxies in nested arguments."""
    return [x for x in tree_flatten(values)[0] if isinstance(x, TensorProxy)]


def of_another_kind(*values: Any) -> bool:
    """Whether a tensor in nested arguments is more than a plain one (DTensor, a subclass): Thunder has ways of its own."""
    return any(type(x) is not TensorProxy for x in tensors(*values))


def static(proxies: list[TensorProxy]) -> bool:
    """Whether every size of every proxy is known when compiling."""
    return all(type(s) is int for p in proxies for s in p._shape)


def error(eager: Callable, args: tuple, kwargs: dict) -> Exception | None:
    """What eager says to tensors of these shapes and dtypes, None if it accepts them or cannot be asked."""
    proxies = tensors(args, kwargs)
    if not static(proxies) or any(math.prod(p._shape) > _MAX_ELEMENTS for p in proxies):
        return None
    try:
        with torch.no_grad():
            eager(*tree_map(_repeated, args), **tree_map(_repeated, kwargs))
    except Exception as error:
        return type(error)(*error.args)
    return None


def _repeated(value: Any) -> Any:
    if not isinstance(value, TensorProxy):
        return value
    return torch.zeros((), dtype=to_torch_dtype(value.dtype)).expand(tuple(value._shape))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


def replay(eager: Callable, args: tuple, kwargs: dict, table: dict) -> Any:
    """Carry out on proxies the operations that `eager` performs on contiguous tensors of their shapes.

    `table` says for each ATen operation what does it on proxies. Unstated if one is missing there, or eager refuses.
    """
    proxies = tensors(args, kwargs)
    if not static(proxies):
        raise Unstated
    # Keyed by identity: eager hands the very tensors on, and views of them are tensors of their own.
    known: dict[int, Any] = {}
    alive = []

    def stand_in(value: Any) -> Any:
        if not isinstance(value, TensorProxy):
            return value
        made = torch.empty(tuple(value._shape), dtype=to_torch_dtype(value.dtype), device="meta")
        known[id(made)] = value
        alive.append(made)
        return made

    recorder = _Recorder()
    inputs = tree_map(stand_in, (args, kwargs))
    try:
        with torch.no_grad(), recorder:
            result = eager(*inputs[0], **inputs[1])
    except Exception:
        raise Unstated from None

    def proxy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            raise Unstated
        return known[id(value)]

    for func, call_args, call_kwargs, out in recorder.calls:
        if func not in table or not isinstance(out, torch.Tensor):
            raise Unstated
        made = table[func](*tree_map(proxy, call_args), **tree_map(proxy, call_kwargs))
        if (tuple(made.shape), to_torch_dtype(made.dtype)) != (tuple(out.shape), out.dtype):
            raise Unstated
        known[id(out)] = made
        alive.append(out)
    return tree_map(proxy, result)
