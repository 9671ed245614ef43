"""Where the user wrote an operation: the line that a trace shows for it, and that a report names."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import thunder
import torch
from thunder.core.interpreter import get_interpreterruntimectx
from thunder.core.jit_ext import get_jit_ctx

_LIBRARIES = tuple(os.path.dirname(package.__file__) + os.sep for package in (torch, thunder))


def placed(enter: Callable) -> Callable:
    """`enter`, recorded at the innermost line outside of torch and Thunder: a model's, not that of torch.nn.Linear."""

    @functools.wraps(enter)
    def wrapper(*args, **kwargs):
        get_jit_ctx()._computation_trace.set_current_source_location(*_users_place())
        return enter(*args, **kwargs)

    return wrapper


def _users_place() -> tuple:
    frames = get_interpreterruntimectx().frame_stack
    for frame in reversed(frames):
        file = frame.code.co_filename
        if not file.startswith(_LIBRARIES):
            return file, frame.positions
    return get_interpreterruntimectx().get_current_user_source_location()
