"""Thunder's own casting in autocast regions, kept from what has been cast already."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator

from thunder.core.compile_data import get_compile_data


class _Rest(tuple):
    """An entry of Thunder's stack of regions that no program wrote: (device, dtype, whether it casts)."""


@contextlib.contextmanager
def resting() -> Iterator[None]:
    """Inside, Thunder's rules cast nothing of the program that this thread compiles.

    Thunder's own `disable_autocast` is one flag for all threads: two that overlap can leave it off for good.
    """
    data = get_compile_data()
    stack = deque() if data is None else data.autocast_stack.stack
    rests = [_Rest((device, None, False)) for device in {entry[0] for entry in stack}]
    stack.extend(rests)
    try:
        yield
    finally:
        for rest in rests:
            stack.remove(rest)


def drop_oldest(stack: deque, keep: int) -> None:
    """Take the oldest regions of a program away, until `keep` are left."""
    while sum(not isinstance(entry, _Rest) for entry in stack) > keep:
        stack.popleft()
