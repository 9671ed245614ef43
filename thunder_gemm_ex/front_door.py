"""Where a user's matmul enters a trace: shapes and dtypes that cannot multiply are refused as eager refuses them.

Thunder has messages of its own for such calls, and broadcasts the batches of a bmm where eager refuses. Operations that
are all right are recorded exactly as Thunder records them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import thunder.torch as ltorch
import torch
from thunder.core.dtypes import to_torch_dtype
from thunder.core.jit_ext import record_source_loc_in_symbol_header
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.extend import Executor

# Eager is asked with tensors of one repeated element, but may copy them before it looks: not beyond this many elements.
_MAX_ELEMENTS = 1 << 24

# Every way in: torch's function, the operator of a proxy, and Thunder's own symbol, to which proxies' methods lead.
_ENTRIES = {
    torch.matmul: (torch.matmul, ltorch.matmul),
    TensorProxy.__matmul__: (torch.matmul, ltorch.matmul),
    ltorch.matmul: (torch.matmul, ltorch.matmul),
    torch.bmm: (torch.bmm, ltorch.bmm),
    ltorch.bmm: (torch.bmm, ltorch.bmm),
    torch.nn.functional.linear: (torch.nn.functional.linear, ltorch.linear),
    ltorch.linear: (torch.nn.functional.linear, ltorch.linear),
}


def open_front_door(executor: Executor) -> None:
    """Let programs compiled with `executor` enter their matmuls here."""
    for entry, (eager, symbol) in _ENTRIES.items():
        executor._lookasides[entry] = record_source_loc_in_symbol_header(_guarded(eager, symbol))


def _guarded(eager: Callable, symbol: Symbol) -> Callable:
    @functools.wraps(eager)
    def enter(*args, **kwargs):
        if eager is torch.bmm and _batches_differ(args):
            raise _eagers_error(eager, args, kwargs) or RuntimeError("bmm needs batches of one size")
        try:
            return symbol(*args, **kwargs)
        except Exception as error:
            raise _eagers_error(eager, args, kwargs) or error from None

    return enter


def _batches_differ(args: tuple) -> bool:
    shapes = [x._shape for x in args[:2] if isinstance(x, TensorProxy)]
    sizes = [s[0] for s in shapes if len(s) == 3 and type(s[0]) is int]
    return len(sizes) == 2 and sizes[0] != sizes[1]


def _eagers_error(eager: Callable, args: tuple, kwargs: dict) -> Exception | None:
    """What eager says to tensors of these shapes and dtypes, None if it accepts them or cannot be asked."""
    values = [*args, *kwargs.values()]
    proxies = [x for x in values if isinstance(x, TensorProxy)]
    if any(type(s) is not int for p in proxies for s in p._shape):
        return None
    if any(math.prod(p._shape) > _MAX_ELEMENTS for p in proxies):
        return None
    try:
        with torch.no_grad():
            eager(*map(_stand_in, args), **{k: _stand_in(v) for k, v in kwargs.items()})
    except Exception as error:
        return type(error)(*error.args)
    return None


def _stand_in(value):
    if not isinstance(value, TensorProxy):
        return value
    return torch.zeros((), dtype=to_torch_dtype(value.dtype)).expand(tuple(value._shape))
