"""Ways to put the executor into Thunder: a list for one compile, or Thunder's defaults for all later ones."""

from __future__ import annotations

import thunder
from thunder.extend import Executor

from thunder_gemm_ex.executor import gemm_ex


def executors() -> list[Executor]:
    """`[gemm_ex, *Thunder's default executors]`, for `thunder.jit(..., executors=gx.executors())`."""
    return [gemm_ex, *(ex for ex in thunder.get_default_executors() if ex != gemm_ex)]


def enable() -> None:
    """Put the executor first into Thunder's defaults; functions compiled from now on use it. Twice is once."""
    thunder.extend.set_default_executors(executors())


def disable() -> None:
    """Take the executor out of Thunder's defaults; functions that are already compiled keep it."""
    thunder.extend.remove_default_executor(gemm_ex)
