"""What the interpreter gives with a call: the line where the user wrote it, and proxies for what a container still holds."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import thunder
import torch
from thunder.core.interpreter import get_interpreterruntimectx
from thunder.core.jit_ext import get_jit_ctx, recursively_proxy
from thunder.core.pytree import tree_flatten

# What a program calls, or what is recorded for it.
Function = Callable[..., Any]

_LIBRARIES = tuple(os.path.dirname(str(package.__file__)) + os.sep for package in (torch, thunder))


def placed(enter: Function) -> Function:
    """`enter`, recorded at the innermost line outside of torch and Thunder: a model's, not that of torch.nn.Linear."""

    @functools.wraps(enter)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        get_jit_ctx()._computation_trace.set_current_source_location(*_users_place())
        return enter(*map(_proxied, args), **{name: _proxied(value) for name, value in kwargs.items()})

    return wrapper


def _proxied(value: Any) -> Any:
    """An argument with proxies for all tensors in it.

    Thunder proxies what a program takes out of a container, and whole containers for its own symbols' calls, but not for
    those of an executor. The interpreter knows where the container came from.
    """
    if not isinstance(value, (list, tuple, dict)) or not any(
        isinstance(x, torch.Tensor) for x in tree_flatten(value)[0]
    ):
        return value
    known = get_interpreterruntimectx()._known_wrappers.get(id(value))
    wrapper = None if known is None else known[0]()
    if wrapper is None:
        return value
    recursively_proxy(wrapper)
    return wrapper.value


def _users_place() -> tuple[Any, ...]:
    frames = get_interpreterruntimectx().frame_stack
    for frame in reversed(frames):
        file = frame.code.co_filename
        if not file.startswith(_LIBRARIES):
            return file, frame.positions
    return get_interpreterruntimectx().get_current_user_source_location()
