"""What the cublaslt engine is called for while a program runs, for those who tune it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import torch

from thunder_gemm_ex.engines.cublaslt import Bound
from thunder_gemm_ex.engines.terms import Compute

# Whether somebody listens: read at every call, so a plain name of this module.
active = False
_calls: list[Call] = []
_seen: set[tuple[object, ...]] = set()
# What goes past `note` otherwise: each is called when recording starts, and what it returns when it ends.
suspended: list[Callable[[], Callable[[], None]]] = []


@dataclasses.dataclass(frozen=True)
class Call:
    """One call with its tensors, as they were when it was made."""

    bound: Bound
    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    bias: torch.Tensor | None
    c: torch.Tensor | None
    alpha: float
    beta: float
    flags: int
    aten: Compute  # the same with ATen: (a, b, bias, c, alpha, beta) -> out

    @property
    def terms(self) -> tuple[torch.Tensor | float | None, ...]:
        """What follows a, b and out in `Bound.full`, up to the algorithm."""
        return (self.bias, self.c, None, None, None, self.alpha, self.beta, self.flags)


def note(made: Call) -> None:
    """Remember a call that is about to be made, the first of those that are alike: tensors are kept alive by it."""
    tensors = (made.a, made.b, made.out, made.bias, made.c)
    alike = (id(made.bound), made.flags, *(None if t is None else (t.stride(), t.data_ptr() % 256) for t in tensors))
    if alike not in _seen:
        _seen.add(alike)
        _calls.append(made)


@contextlib.contextmanager
def recorded() -> Iterator[list[Call]]:
    """Within this block calls are noted in the list that it yields."""
    global active, _calls
    _seen.clear()
    if active:
        raise RuntimeError("calls are being recorded already: one tuning at a time")
    active, _calls = True, []
    resume = [suspend() for suspend in suspended]
    try:
        yield _calls
    finally:
        active, _calls = False, []
        for each in resume:
            each()
