"""Thunder's own casting in autocast regions, kept from what has been cast already."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

from thunder.core import compile_data
from thunder.core.utils import AutocastStack


@contextlib.contextmanager
def resting() -> Iterator[None]:
    """Inside, Thunder's rules cast nothing of what this thread compiles: it sees compile data without regions.

    Thunder's own `disable_autocast` is one flag for all threads: two that overlap can leave it off for good. And the regions
    of a program are shared by all threads that compile it.
    """
    # Thunder has no function that returns the second, which reads options for the report of those that were unused.
    data, stats = compile_data._compile_data.get()
    if data is None or data.autocast_stack.is_empty():
        yield
        return
    own = copy.copy(data)
    own.autocast_stack = AutocastStack()
    with compile_data.compile_data_and_stats(own, stats):
        yield
