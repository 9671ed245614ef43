"""Which nodes of an ATen graph only rearrange dimensions, as the spec engine's view steps; and which of them copy."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from thunder_gemm_ex.spec import Broadcast, Permute, Reshape, Step

aten = torch.ops.aten

_RESHAPES = {
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
}
_IDENTITIES = {aten.alias.default, aten.clone.default}


@dataclasses.dataclass(frozen=True)
class View:
    """`node` is `source` seen through `steps`; `copies` if its elements are copied to get there."""

    node: torch.fx.Node
    source: torch.fx.Node
    steps: tuple[Step, ...]
    copies: bool

    @property
    def name(self) -> str:
        """What it does, for the log."""
        kinds = {Permute: "permute", Reshape: "reshape", Broadcast: "expand"}
        return "+".join(kinds[type(step)] for step in self.steps) or "copy"


def tensor_of(node: object) -> torch.Tensor | None:
    """What a node makes, if that is one plain strided tensor whose sizes and strides are known; else None."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return None
    known = all(type(x) is int for x in (*value.shape, *value.stride()))
    return value if known else None


def known(node: torch.fx.Node) -> torch.Tensor:
    """What a node of a product or of a view makes, of which `tensor_of` has said that it is plain."""
    value = tensor_of(node)
    assert value is not None, node
    return value


def view_at(node: torch.fx.Node) -> View | None:
    """The node as a view of its first argument, if it is one."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return None
    out, source = tensor_of(node), tensor_of(node.args[0])
    if out is None or source is None or out.dtype != source.dtype or out.device != source.device:
        return None
    steps = _steps(node, source, out)
    return None if steps is None else View(node, node.args[0], steps, _copies(node, source, out))


def _steps(node: torch.fx.Node, source: torch.Tensor, out: torch.Tensor) -> tuple[Step, ...] | None:
    if node.target in _RESHAPES:
        return (Reshape(tuple(source.shape), tuple(out.shape)),)
    if node.target in _IDENTITIES:
        return ()
    rank = source.dim()
    arguments: tuple[Any, ...] = node.args
    if node.target is aten.permute.default:
        return (Permute(tuple(d % rank for d in arguments[1])),)
    if node.target is aten.t.default:
        return (Permute((1, 0)),) if rank == 2 else ()
    if node.target is aten.transpose.int:
        order = list(range(rank))
        i, j = (d % rank for d in arguments[1:3])
        order[i], order[j] = order[j], order[i]
        return (Permute(tuple(order)),)
    if node.target is aten.expand.default:
        lead = out.dim() - rank
        return (Broadcast(tuple(source.shape), tuple(out.shape), tuple(range(lead, out.dim()))),)
    return None


def _copies(node: torch.fx.Node, source: torch.Tensor, out: torch.Tensor) -> bool:
    if node.target is aten.clone.default:
        return True
    if node.target not in (aten.reshape.default, aten._unsafe_view.default):
        return False
    # Torch's own rule, asked of tensors without data: a reshape is a view wherever the strides allow one.
    bare = torch.empty_strided(source.shape, source.stride(), device="meta")
    try:
        bare.view(out.shape)
    except RuntimeError:
        return True
    return False
