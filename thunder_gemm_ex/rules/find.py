"""Rule: find the matmuls of a trace and state each as a contraction. What cannot be stated is declined, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

from thunder.core import dtypes
from thunder.core.compile_data import using_symbolic_values
from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.graph import Graph, Matmul, is_backward, shapes
from thunder_gemm_ex.rules.convolutions import is_contraction
from thunder_gemm_ex.spec import convolution, plain

# Torch's executor has claimed most operations before a fusion pass runs, fusers keep Thunder's own symbols: match both.
_OPS = {
    "matmul": "matmul",
    "torch.matmul": "matmul",
    PrimIDs.MATMUL: "matmul",
    "bmm": "bmm",
    "torch.bmm": "bmm",
    "linear": "linear",
    "torch.nn.functional.linear": "linear",
    PrimIDs.LINEAR: "linear",
    # Of torch.distributed's tensors: declined below, since only they know their shards.
    "dtensor_linear_prim": "linear",
    PrimIDs.CONVOLUTION: "convolution",
    "convolution": "convolution",
}
_OPS |= {f"{prefix}conv{n}d": "convolution" for prefix in ("", "torch.nn.functional.") for n in (1, 2, 3)}

# Matmuls by other names, by the symbol's: what the front door could not state runs as Thunder runs it, and the report
# says so. torch.mm comes as spmm.
_UNSTATED = {
    name: name
    for name in ("mm", "addmm", "mv", "addmv", "dot", "vdot", "baddbmm", "addbmm", "inner", "einsum", "tensordot")
    + ("multi_dot", "bilinear", "multi_head_attention_forward")
}
_UNSTATED["spmm"] = "mm"


@dataclasses.dataclass(frozen=True)
class Declined:
    """A matmul that stays as it was, and why."""

    position: int
    bsym: BoundSymbol
    op: str
    reason: str
    decision: str = "declined"

    @property
    def backward(self) -> bool:
        """Whether it belongs to the backward part of a joint trace."""
        return is_backward(self.bsym)


def find_matmuls(graph: Graph) -> list[Declined]:
    """Fill `graph.matmuls`; returns the matmuls that no rule may touch."""
    declined = []
    for position, bsym in enumerate(graph.original):
        op = _OPS.get(bsym.sym.id)
        if op is None:
            if bsym.sym.name in _UNSTATED:
                other = _UNSTATED[bsym.sym.name]
                reason = (
                    f"{other} runs as it is: it is complex, has terms of 0 or infinity, or is written in its own way"
                )
                declined.append(Declined(position, bsym, other, reason))
            continue
        if op == "convolution" and not is_contraction(bsym):
            continue
        reason = _refusal(bsym)
        matmul = None if reason else _state(position, bsym, op)
        if matmul is None:
            declined.append(
                Declined(position, bsym, op, reason or "its output is not what the contraction of its shapes is")
            )
        else:
            graph.matmuls[position] = matmul
    return declined


def _tensors(bsym: BoundSymbol) -> list[Any]:
    """a, b and, where there may be one, the bias or None, however the call spells them."""
    names = () if _OPS[bsym.sym.id] in ("matmul", "bmm") else ("bias",)
    spellings = ("a", "w", "other", "mat2", "weight", *names)
    values = list(bsym.args) + [bsym.kwargs[n] for n in spellings if n in bsym.kwargs]
    return values[: 2 + len(names)]


def _refusal(bsym: BoundSymbol) -> str:
    if using_symbolic_values():
        return "sizes are symbolic here, and a spec needs static ones: what holds for this call may not for the next"
    present = [x for x in (*_tensors(bsym), bsym.output) if x is not None]
    other = next((x for x in present if type(x) is not TensorProxy), None)
    if other is not None:
        return f"{getattr(other, 'name', other)} is a {type(other).__name__}, not a plain tensor"
    if shapes(present) is None:
        return "a size is only known when running, and a spec needs static ones"
    if len({x.dtype for x in present}) > 1 or len({x.device for x in present}) > 1:
        return "its tensors differ in dtype or device"
    return ""


def _state(position: int, bsym: BoundSymbol, op: str) -> Matmul | None:
    a, b, *rest = _tensors(bsym)
    bias = rest[0] if rest else None
    sizes = shapes([a, b] if bias is None else [a, b, bias])
    assert sizes is not None  # _refusal has seen to it
    spec = convolution(sizes) if op == "convolution" else plain(sizes, transposed_b=op == "linear")
    if spec.shape(spec.out) != tuple(bsym.output.shape):
        return None
    return Matmul(position, bsym, op, spec, a, b, bsym.output, bias)


def is_floating(proxy: TensorProxy) -> bool:
    """Whether a tensor is of a real or complex floating dtype."""
    return bool(dtypes.is_inexact_dtype(proxy.dtype))
