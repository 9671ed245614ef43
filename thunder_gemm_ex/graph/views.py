"""Bound symbols as view steps: what an operation that only rearranges dimensions does to its one operand.

By meaning, not by name: an operation is a view if it is made of prims that only permute, split, join, insert, drop or
broadcast dimensions, whatever it is called. Only operations that have no such inside are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.spec import Broadcast, Permute, Reshape, Step

Steps = tuple[Step, ...]


def view_steps(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps | None:
    """What a bound symbol does to its one operand as view steps, None if it is not a view."""
    read = _PRIMS.get(bsym.sym.id)
    if read is not None:
        return read(bsym, source, out)
    if not bsym.subsymbols or not all(len(s.flat_proxy_outs) == 1 for s in bsym.subsymbols):
        return None
    steps: list[Step] = []
    current = source
    for inner in bsym.subsymbols:
        if [p.name for p in inner.flat_proxy_args] != [current.name]:
            return None
        inner_out = inner.flat_proxy_outs[0]
        if type(inner_out) is not TensorProxy or inner_out.dtype != source.dtype or not static(inner_out):
            return None
        found = view_steps(inner, current, inner_out)
        if found is None:
            return None
        steps += found
        current = inner_out
    return tuple(steps) if current.name == out.name else None


def _permute(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps:
    return (Permute(tuple(int(i) for i in bsym.args[1])),)


def _reshape(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps:
    return (Reshape(shape_of(source), shape_of(out)),)


def _broadcast(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps:
    return (Broadcast(shape_of(source), shape_of(out), tuple(int(i) for i in bsym.args[2])),)


def _identity(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps | None:
    return () if source.dtype == out.dtype and source.device == out.device else None


def _one_by_one_sum(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps | None:
    """A sum over dimensions of size 1 only drops them: autograd writes it where a user wrote an unsqueeze."""
    same = math.prod(shape_of(source)) == math.prod(shape_of(out)) and 0 not in shape_of(source)
    return (Reshape(shape_of(source), shape_of(out)),) if same and source.dtype == out.dtype else None


def _no_flip(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps | None:
    """A flip of dimensions of size 1: the gradient of a convolution flips its windows."""
    dims = bsym.args[1]
    flipped = dims if isinstance(dims, (tuple, list)) else (dims,)
    return () if all(shape_of(source)[d] == 1 for d in flipped) else None


def _no_pad(bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Steps | None:
    """A padding by nothing: the gradient of a convolution pads by what its padding was."""
    return () if not any(amount for side in bsym.args[2] for amount in side) else None


_PRIMS = {
    PrimIDs.TRANSPOSE: _permute,
    PrimIDs.RESHAPE: _reshape,
    PrimIDs.SQUEEZE: _reshape,
    PrimIDs.BROADCAST_IN_DIM: _broadcast,
    PrimIDs.SHALLOW_COPY: _identity,
    PrimIDs.SUM: _one_by_one_sum,
    "torch_prims_reshape_impl": _reshape,
    PrimIDs.FLIP: _no_flip,
    PrimIDs.PAD: _no_pad,
    "flip": _no_flip,
    "torch_pad_prim_impl": _no_pad,
    "shallow_copy": _identity,
    "detach": _identity,
    "sum": _one_by_one_sum,
    "torch.sum": _one_by_one_sum,
}

# Copies of the same values in the same shape; what they do to strides says `copying`.
_COPIES = dict.fromkeys(("contiguous", "torch.Tensor.contiguous", "clone", "torch.clone", PrimIDs.CLONE), _identity)
_PRIMS |= _COPIES | {"to": _identity, "torch.Tensor.to": _identity}


def copying(bsym: BoundSymbol) -> str | None:
    """How a view copies: "" not at all, "clone" always, "pack" where strides are not contiguous, None: in another way."""
    if bsym.sym.id not in _COPIES:
        return ""
    wanted = bsym.kwargs.get("memory_format", bsym.args[1] if len(bsym.args) > 1 else None)
    if "contiguous" in str(bsym.sym.id):
        return "pack" if wanted in (None, torch.contiguous_format) else None
    return "clone" if wanted in (None, torch.preserve_format) else None


def static(*proxies: TensorProxy) -> bool:
    """Whether every size is known when compiling."""
    return all(type(size) is int for p in proxies for size in p._shape)


def shape_of(proxy: TensorProxy) -> tuple[int, ...]:
    """The static shape of a proxy."""
    return tuple(int(size) for size in proxy._shape)


def shapes(proxies: Sequence[TensorProxy]) -> list[tuple[int, ...]] | None:
    """The static shapes of tensors, or None where one of them has a size that is only known when running."""
    return [shape_of(p) for p in proxies] if static(*proxies) else None
