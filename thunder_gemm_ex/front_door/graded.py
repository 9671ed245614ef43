"""Whether autograd follows a value: while a program is recorded Thunder marks its inputs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from thunder.core.compile_data import get_compile_data
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import get_tracectx


def recorded() -> bool:
    """Whether the program may have gradients at all: which inputs want one is not known before the last is read."""
    compiled = get_compile_data()
    return compiled is None or compiled.is_grad_enabled


def graded(*values: object) -> bool:
    """Whether one of the tensors is, or was made from, an input that requires a gradient, and gradients are recorded."""
    if not recorded():
        return False
    wanted = {value.name for value in values if isinstance(value, TensorProxy)}
    if any(isinstance(value, TensorProxy) and value.requires_grad for value in values):
        return True
    trace = get_tracectx()
    for scope in reversed(trace.scopes if trace is not None else ()):
        for bsym in reversed(cast(Sequence[BoundSymbol], scope)):
            if wanted.isdisjoint(out.name for out in bsym.flat_proxy_outs):
                continue
            for arg in bsym.flat_proxy_args:
                if isinstance(arg, TensorProxy) and arg.requires_grad:
                    return True
                wanted.add(arg.name)
    return False
