"""Ways to put the executor into Thunder: a list for one compile, Thunder's defaults for all later ones, a plugin."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import thunder
from thunder.core.recipe import Plugin, PluginPolicy
from thunder.extend import Executor, set_default_executors
from thunder.plugins import register_plugin

from thunder_gemm_ex.executor import gemm_ex

_lock = threading.RLock()


def executors() -> list[Executor]:
    """`[gemm_ex, *Thunder's default executors]`, for `thunder.jit(..., executors=gx.executors())`."""
    return [gemm_ex, *(ex for ex in thunder.get_default_executors() if ex != gemm_ex)]


def enable() -> contextlib.AbstractContextManager[Any]:
    """Put the executor first into Thunder's defaults; functions compiled from now on use it. Twice is once.

    `with gx.enable():` leaves the defaults, at the end of the block, with the executor or without it as they were before.
    """
    with _lock:
        before = gemm_ex in thunder.get_default_executors()
        set_default_executors(executors())
    end = contextlib.ExitStack()
    if not before:
        end.callback(disable)
    return end


def disable() -> None:
    """Take the executor out of Thunder's defaults; functions that are already compiled keep it. Twice is once."""
    with _lock:
        set_default_executors([ex for ex in thunder.get_default_executors() if ex != gemm_ex])


class GemmEx(Plugin):
    """`thunder.compile(model, plugins="gemm_ex")`: the executor in front of those of the recipe."""

    # The executors of such plugins come before the recipe's own.
    policy = PluginPolicy.PRE

    def setup_executors(self) -> list[Executor]:
        """The executor alone: the recipe brings the others."""
        return [gemm_ex]


register_plugin("gemm_ex", GemmEx)
