"""Asking eager PyTorch: what it says to operands that cannot multiply, and which steps it takes for those that can."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import thunder.torch as ltorch
import torch
from thunder.core.dtypes import to_torch_dtype
from thunder.core.proxies import TensorProxy
from thunder.core.pytree import tree_flatten, tree_map
from torch.utils._python_dispatch import TorchDispatchMode

from thunder_gemm_ex.front_door.autocast import Region, in_eager, resting

# Eager is asked with tensors of one repeated element, but may copy them before it looks: not beyond this many elements.
_MAX_ELEMENTS = 1 << 24

# Thunder's annotation names the kinds of leaves, which may be any here.
_map: Callable[[Callable[[Any], Any], Any], Any] = tree_map

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
# What was called, its arguments and keywords, what it gave.
Call = tuple[Any, Args, Kwargs, Any]


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


def error(eager: Callable[..., Any], args: Args, kwargs: Kwargs, where: Region | None = None) -> Exception | None:
    """What eager says to tensors of these shapes and dtypes in the region, None if it accepts them or cannot be asked."""
    proxies = tensors(args, kwargs)
    if not static(proxies) or any(math.prod(p._shape) > _MAX_ELEMENTS for p in proxies):
        return None
    try:
        with torch.no_grad(), in_eager("cpu", None if where is None else where.dtype):
            eager(*_map(_repeated, args), **_map(_repeated, kwargs))
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
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # Tensors that pretend to be on a device are asked for it.
        if func is not torch.ops.prim.device.default:
            self.calls.append((func, args, kwargs or {}, out))
        return out


@dataclasses.dataclass
class _Recording:
    """What eager did: the stand-ins of the proxies in the order of the arguments, its calls, its result."""

    stand_ins: list[tuple[torch.Tensor, TensorProxy]]
    calls: list[Call]
    result: Any


def _record(eager: Callable[..., Any], args: Args, kwargs: Kwargs, where: Region | None) -> _Recording:
    """Call `eager` on contiguous tensors without data of the proxies' shapes. Unstated if it refuses them.

    In a region they pretend to be on its device, so that eager casts them as it would there.
    """
    stand_ins: list[tuple[torch.Tensor, TensorProxy]] = []

    def stand_in(value: Any) -> Any:
        if not isinstance(value, TensorProxy):
            return value
        shape = tuple(size if type(size) is int else size.value for size in value._shape)
        made = torch.empty(shape, dtype=to_torch_dtype(value.dtype), device="meta" if where is None else where.device)
        stand_ins.append((made, value))
        return made

    recorder = _Recorder()
    try:
        with torch.no_grad(), _pretending(where):
            inputs = _map(stand_in, (args, kwargs))
            with recorder:
                result = eager(*inputs[0], **inputs[1])
    except Exception:
        raise Unstated from None
    return _Recording(stand_ins, recorder.calls, result)


@contextlib.contextmanager
def _pretending(where: Region | None) -> Iterator[None]:
    if where is None:
        yield
        return
    with in_eager(where.device, where.dtype), _fake_mode(where.device)():
        yield


@functools.cache
def _fake_mode(device: str) -> type[TorchDispatchMode]:
    """What makes tensors of the device without data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if device != "cpu":
        return FakeTensorMode

    class WithoutDeviceGuard(FakeTensorMode):
        # On a machine without a GPU the mode registers a guard for CUDA that belongs to the first thread: torch 2.10
        # crashes when that thread has ended and another enters the mode.
        avoid_device_init = False

    return WithoutDeviceGuard


def cast(eager: Callable[..., Any], args: Args, kwargs: Kwargs, where: Region | None) -> tuple[Args, Kwargs]:
    """The arguments with those tensors cast that eager casts in the region before it does anything else with them."""
    if where is None:
        return args, kwargs
    try:
        recording = _record(eager, args, kwargs, where)
    except Unstated:
        return args, kwargs
    uses: dict[int, tuple[Any, Kwargs]] = {}
    for func, call_args, call_kwargs, _ in recording.calls:
        for value in tree_flatten((call_args, call_kwargs))[0]:
            uses.setdefault(id(value), (func, call_kwargs))
    proxies = iter(recording.stand_ins)

    def as_eager(value: Any) -> Any:
        if not isinstance(value, TensorProxy):
            return value
        func, how = uses.get(id(next(proxies)[0]), (None, {}))
        return to_copy(value, **how) if func is torch.ops.aten._to_copy.default else value

    cast_args, cast_kwargs = _map(as_eager, (args, kwargs))
    return cast_args, cast_kwargs


def to_copy(a: TensorProxy, *, dtype: torch.dtype | None = None, **others: Any) -> TensorProxy:
    """aten::_to_copy where it is a cast."""
    if dtype is None or others:
        raise Unstated
    return ltorch.to(a, dtype)


def replay(
    eager: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    table: Mapping[Any, Callable[..., Any]],
    where: Region | None = None,
) -> Any:
    """Carry out on proxies the operations that `eager` performs on contiguous tensors of their shapes, in the region.

    `table` says for each ATen operation what does it on proxies. Unstated if one is missing there, or eager refuses.
    """
    if not static(tensors(args, kwargs)):
        raise Unstated
    recording = _record(eager, args, kwargs, where)
    # Keyed by identity: eager hands the very tensors on, and views of them are tensors of their own.
    known: dict[int, Any] = {id(made): value for made, value in recording.stand_ins}

    def proxy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            raise Unstated
        return known[id(value)]

    with resting(where):
        for func, call_args, call_kwargs, out in recording.calls:
            if func not in table or not isinstance(out, torch.Tensor):
                raise Unstated
            made = table[func](*_map(proxy, call_args), **_map(proxy, call_kwargs))
            if (tuple(made.shape), to_torch_dtype(made.dtype)) != (tuple(out.shape), out.dtype):
                raise Unstated
            known[id(out)] = made
    return _map(proxy, recording.result)
