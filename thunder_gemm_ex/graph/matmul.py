"""One matmul of a trace, and what the rules made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, BoundSymbolTag

from thunder_gemm_ex.spec import Contraction

# The symbol's name under which torch._scaled_mm is recorded.
SCALED_MM = "_scaled_mm"


def is_backward(bsym: BoundSymbol) -> bool:
    """Whether a bound symbol of a joint trace belongs to the backward."""
    return BoundSymbolTag.BACKWARD in bsym.tags  # type: ignore[attr-defined]  # Thunder registers it when imported


@dataclasses.dataclass(eq=False)
class Scales:
    """The scales of fp8 operands, one number or one a row and column, and what torch._scaled_mm says besides."""

    a: TensorProxy
    b: TensorProxy
    out_dtype: torch.dtype | None
    fast_accumulate: bool


@dataclasses.dataclass(eq=False)
class Matmul:
    """`out = alpha * a b + beta * bias`, labelled by `spec`. `op` is the user's operation ("matmul", "linear", "bmm").

    alpha: a number, or a tensor without dimensions in host memory. With an `epilogue` (names as in docs/engine.md) it also
    reads or writes `aux`, and writes `bias_grad`, whose labels then are the spec's bias.
    """

    position: int
    bsym: BoundSymbol
    op: str
    spec: Contraction
    a: TensorProxy
    b: TensorProxy
    out: TensorProxy
    bias: TensorProxy | None = None
    alpha: float | TensorProxy = 1
    beta: float = 1
    epilogue: str = ""
    aux: TensorProxy | None = None
    bias_grad: TensorProxy | None = None
    scales: Scales | None = None
    folded: list[str] = dataclasses.field(default_factory=list)
    # Why something beside it stays as it is, by where: an operand's name, "result" or "k".
    kept: dict[str, str] = dataclasses.field(default_factory=dict)
    bytes_saved: int = 0
    decision: str = "claimed"
    reason: str = ""
    # Where it is written if not in its own place: right before the operation at this position.
    before: int | None = None

    @property
    def backward(self) -> bool:
        """Whether it belongs to the backward part of a joint trace."""
        return is_backward(self.bsym)

    @property
    def scaled(self) -> bool:
        """Whether the product has a factor: a number other than 1, or a tensor."""
        return isinstance(self.alpha, TensorProxy) or self.alpha != 1

    def operands(self) -> Iterator[tuple[str, TensorProxy]]:
        """(name, proxy) of a, b and, if there is one, the bias."""
        yield "a", self.a
        yield "b", self.b
        if self.bias is not None:
            yield "bias", self.bias

    def reads(self) -> Iterator[TensorProxy]:
        """Every tensor that the call reads."""
        yield from (proxy for _, proxy in self.operands())
        if isinstance(self.alpha, TensorProxy):
            yield self.alpha
        if self.aux is not None and self.reads_aux:
            yield self.aux
        if self.scales is not None:
            yield self.scales.a
            yield self.scales.b

    @property
    def reads_aux(self) -> bool:
        """Whether the aux is an operand of the epilogue, not one of its results."""
        return self.epilogue in ("drelu", "dgelu")

    def makes(self) -> tuple[TensorProxy, ...]:
        """Every tensor that the call makes, its result first."""
        aux = None if self.reads_aux else self.aux
        return tuple(x for x in (self.out, aux, self.bias_grad) if x is not None)
