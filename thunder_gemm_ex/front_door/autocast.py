"""Autocast regions of a traced program. What is cast in them is eager's to say: `eager.cast` and `eager.replay` ask it.

Thunder casts for matmul, linear and convolutions alone, by rules of its own symbols; what enters by the front door is cast
there, and Thunder's rules rest meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import thunder
import torch
from thunder.core import dtypes
from thunder.core.compile_data import get_compile_data
from thunder.core.proxies import TensorProxy
from thunder.core.trace import get_tracectx

from thunder_gemm_ex.graph import autocast

_ENTER, _EXIT = (f"torch.amp.autocast_mode._{name}_autocast" for name in ("enter", "exit"))


@dataclasses.dataclass(frozen=True)
class Region:
    """Autocast to `dtype` for tensors of the type of device `device`."""

    device: str
    dtype: torch.dtype


def region(proxies: list[TensorProxy]) -> Region | None:
    """The region that the program is in, as far as it is for one of these tensors and not disabled."""
    data = get_compile_data()
    if data is None or data.autocast_stack.is_empty():
        return None
    _forget_left(data.autocast_stack.stack)
    for device in dict.fromkeys(x.device.devicetype.name.lower() for x in proxies):
        dtype = data.autocast_stack.get_dtype_for_device_if_enabled(device)
        if dtype is not None:
            wanted = dtypes.to_torch_dtype(dtypes.to_dtype(dtype))
            assert wanted is not None
            return Region(device, wanted)
    return None


def _forget_left(stack: deque[Any]) -> None:
    """Drop regions that were around an earlier compilation: Thunder 0.2.6 enters those for good."""
    try:
        around = bool(thunder._get_cache_info().get("is_autocast_enabled"))
    except LookupError:
        # Not compiled by thunder.jit: ThunderFX tries an operation on a stack of its own.
        return
    trace = get_tracectx()
    entered = [] if trace is None else [x.sym.id for x in trace.scopes[0]]
    inside = entered.count(_ENTER) - entered.count(_EXIT)
    while len(stack) > inside + around:
        stack.popleft()


def resting(where: Region | None) -> contextlib.AbstractContextManager[None]:
    """Thunder's own rules rest in a region: what is recorded meanwhile has been cast."""
    return contextlib.nullcontext() if where is None else autocast.resting()


@contextlib.contextmanager
def in_eager(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    """Autocast of eager PyTorch as in a region of `dtype`, off for None. torch.autocast itself would ask for a GPU."""
    saved = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()
    try:
        _set(device, dtype is not None, dtype or saved[1], False)
        yield
    finally:
        _set(device, *saved)


def _set(device: str, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache)
