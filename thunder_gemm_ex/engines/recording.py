"""What the cublaslt engine is called for while a program runs, for those who tune it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import torch

from thunder_gemm_ex.engines.cublaslt import Bound

# Whether somebody listens: read at every call, so a plain name of this module.
active = False
_calls: list[Call] = []
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


def note(*call) -> None:
    """Remember a call that is about to be made."""
    _calls.append(Call(*call))


@contextlib.contextmanager
def recorded() -> Iterator[list[Call]]:
    """Within this block calls are noted in the list that it yields."""
    global active, _calls
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
