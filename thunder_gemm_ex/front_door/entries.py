"""Every way in, and what is recorded there: an operation's statement, or eager's own steps replayed."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import thunder.torch as ltorch
import torch
from thunder.core import dtypes
from thunder.core.proxies import TensorProxy
from thunder.extend import Executor
from thunder.torch import _torch_to_thunder_function_map
from thunder.torch.langctx import _method_name_to_fn_map, register_method, register_property, torchctx

from thunder_gemm_ex.front_door import autocast, statements
from thunder_gemm_ex.front_door import eager as asking
from thunder_gemm_ex.front_door.aten import STEPS, matmul
from thunder_gemm_ex.front_door.places import Function, placed


@dataclasses.dataclass(frozen=True)
class Entry:
    """One operation: eager's function, how it is stated (None: by replaying eager), other functions that mean it."""

    eager: Function
    state: Function | None = None
    also: tuple[Function, ...] = ()

    @property
    def name(self) -> str:
        """The operation's name, such as "addmm"."""
        return self.eager.__name__.removeprefix("linalg_")

    def functions(self) -> list[Function]:
        """What a traced program may call: torch's function, the method, and Thunder's symbols for them."""
        found: list[Function | None] = [self.eager, *self.also]
        method = getattr(torch.Tensor, self.name, None)
        if method is not None and self.eager is getattr(torch, self.name, None):
            found.append(method)
            found.append(_method_name_to_fn_map.get(self.name))
        found += [_torch_to_thunder_function_map[f] for f in list(found) if f in _torch_to_thunder_function_map]
        return [f for f in dict.fromkeys(found) if f is not None]

    def symbol(self) -> Function | None:
        """What Thunder itself records."""
        return next((s for s in map(_torch_to_thunder_function_map.get, (self.eager, *self.also)) if s), None)


def _like(view: Function) -> Function:
    """view_as, reshape_as: only the other tensor's shape counts."""
    return lambda a, other: view(a, tuple(other.shape))


_F = torch.nn.functional
ENTRIES = [
    Entry(torch.matmul, matmul, (TensorProxy.__matmul__, torch.linalg.matmul)),
    Entry(_F.linear, statements.linear),
    Entry(torch.bmm, statements.bmm),
    Entry(torch.mm, statements.mm),
    Entry(torch.mv, statements.mv),
    Entry(torch.dot, statements.dot),
    Entry(torch.vdot, statements.dot),
    Entry(torch.addmm, statements.addmm),
    Entry(torch.addmv, statements.addmv),
    Entry(torch.baddbmm, statements.baddbmm),
    Entry(torch.addbmm, statements.addbmm),
    Entry(torch.outer, statements.outer),
    Entry(torch.ger, statements.outer),
    Entry(_F.bilinear, statements.bilinear, (torch.bilinear,)),
    *(Entry(getattr(torch, f"conv{n}d"), getattr(ltorch, f"conv{n}d")) for n in (1, 2, 3)),
    Entry(torch.inner),
    Entry(torch.tensordot),
    Entry(torch.einsum),
    Entry(torch.chain_matmul),
    Entry(torch.linalg.multi_dot),
    # Views that Thunder knows only as opaque torch operations.
    Entry(torch.swapaxes),
    Entry(torch.swapdims),
    Entry(torch.moveaxis),
    Entry(torch.adjoint),
    Entry(torch.ravel),
    Entry(torch.Tensor.view_as, _like(ltorch.view)),
    Entry(torch.Tensor.reshape_as, _like(ltorch.reshape)),
]


# What is recorded for each function that a program may call.
entered: dict[Function, Function] = {}


def open_front_door(executor: Executor) -> None:
    """Let programs compiled with `executor` enter their matmuls, and views that Thunder does not look into, here."""
    for entry in ENTRIES:
        enter = _guarded(entry)
        recorded = placed(enter)
        for function in entry.functions():
            entered[function] = enter
            executor._lookasides[function] = recorded
    _add_missing_views()


def _guarded(entry: Entry) -> Function:
    symbol = entry.symbol()

    @functools.wraps(entry.eager)
    def enter(*args: Any, **kwargs: Any) -> Any:
        if symbol is not None and asking.of_another_kind(args, kwargs):
            return symbol(*args, **kwargs)
        where = autocast.region(asking.tensors(args, kwargs))
        said = functools.partial(asking.error, entry.eager, args, kwargs, where)
        if entry.state is not None:
            args, kwargs = asking.cast(entry.eager, args, kwargs, where)
        # What eager casts between its steps is cast by the replay, or by Thunder's own rules.
        with autocast.resting(where if entry.state is not None else None):
            try:
                return _state(entry, args, kwargs, where)
            except asking.Unstated:
                pass
            except Exception as error:
                raise said() or error from None
            refusal = said()
            if refusal is not None or symbol is None:
                raise refusal or NotImplementedError(f"{entry.name} has no meaning in a trace")
            return symbol(*args, **kwargs)

    return enter


def _state(entry: Entry, args: asking.Args, kwargs: asking.Kwargs, where: autocast.Region | None) -> Any:
    if entry.state is None:
        return asking.replay(entry.eager, args, kwargs, STEPS, where)
    try:
        return entry.state(*args, **kwargs)
    except TypeError:
        # Another signature than the documented one (out=, deprecated orders of arguments).
        raise asking.Unstated from None


def _add_missing_views() -> None:
    """Views of torch.Tensor that Thunder has no name for; added to its language, where absent."""
    if not torchctx.has_method("broadcast_to"):
        register_method("broadcast_to", lambda a, size: ltorch.expand(a, tuple(size)))
    for name in ("mH", "H"):
        if not torchctx.has_method(name):
            register_property(name, _adjoint)


def _adjoint(a: TensorProxy) -> TensorProxy:
    # Thunder gives its torch module functions like this one when it is imported.
    complex_ = dtypes.is_complex_dtype(a.dtype)
    return ltorch.adjoint(a) if complex_ else ltorch.transpose(a, -2, -1)  # type: ignore[attr-defined]
