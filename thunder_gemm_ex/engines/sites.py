"""What was decided for one spec text: which engine carries out a call, for each signature of its operands.

A `Site` is everything that was decided for one spec text. Where one torch call means the spec whatever its operands'
layout, that call *is* the site; otherwise it keeps one decision for each signature (shapes, strides, device).
Nothing is parsed, planned or compiled after the first call with a signature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import torch

from thunder_gemm_ex.engines import aten, cublaslt_calls, recording
from thunder_gemm_ex.engines.epilogues import as_c, is_full
from thunder_gemm_ex.engines.terms import Compute, Terms
from thunder_gemm_ex.spec import Contraction, Pattern, SpecError, parse

# How the cublaslt engine did a spec last: tried first, and found out by the extension where the operands are others.
guesses: dict[str, cublaslt_calls.Guess] = {}
# Whether the cublaslt engine also takes CPU tensors; `choose.everywhere` sets it.
forced = False
# Signatures kept for a site before all are forgotten: a program has one or two, only eager use with ever new shapes more.
MAX_SIGNATURES = 512
# Shape and strides of a, of b, device, dtype, the bias's shape.
Signature = tuple[
    torch.Size, tuple[int, ...], torch.Size, tuple[int, ...], torch.device, torch.dtype, torch.Size | None
]


@dataclasses.dataclass(frozen=True)
class Decision:
    """How one signature of a site is carried out. `calls` and `copies` of the aten engine: see `aten.account`."""

    engine: str
    detail: str
    reason: str
    run: Compute
    calls: int = 1
    copies: Mapping[str, int] = MappingProxyType({})


class Site:
    """The decisions for one spec text and one set of terms; call it with (a, b, bias, c, alpha, beta)."""

    def __init__(self, text: str, terms: Terms) -> None:
        self.text = text
        self.terms = terms
        self.pattern: Pattern = parse(text)
        self.decisions: dict[Signature, Decision] = {}
        if self.pattern.bias is not None and not terms.bias:
            raise SpecError(f"bias is None, and the spec '{text}' labels one: give it, or leave its labels out")
        whole = None if terms.numerics == "batch_invariant" else _generic(self.pattern)
        source = None if whole is None else aten.direct(whole, terms)
        self.direct = Decision("aten", source, "", aten.runner(source, terms)) if source else None

    def run(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 0,
        *,
        differentiable: bool = False,
    ) -> torch.Tensor:
        """Run the contraction; with `differentiable` through torch's own operations, which autograd records."""
        if not differentiable:
            return self(a, b, bias, c, alpha, beta)
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        return self._aten(spec, a, b).run(a, b, bias, c, alpha, beta)

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 0,
    ) -> torch.Tensor:
        """Run the contraction; the operands have been checked when compiling, or by `gx.gemm`."""
        direct = self.direct
        if direct is not None and not a.is_cuda and not forced:
            return direct.run(a, b, bias)
        key = (a.shape, a.stride(), b.shape, b.stride(), a.device, a.dtype, None if bias is None else bias.shape)
        decision = self.decisions.get(key)
        if decision is None:
            decision = self._decide(key, a, b, bias)
        return decision.run(a, b, bias, c, alpha, beta)

    def decision_for(self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> Decision:
        """What a call with these operands would do; for reports."""
        if self.direct is not None and not a.is_cuda and not forced:
            return self.direct
        key = (a.shape, a.stride(), b.shape, b.stride(), a.device, a.dtype, None if bias is None else bias.shape)
        return self.decisions.get(key) or self._decide(key, a, b, bias)

    def _decide(self, key: Signature, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> Decision:
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        decision = self._aten(spec, a, b)
        if a.is_cuda or forced:
            if bias is not None and (self.terms.scaled_bias or is_full(spec)):
                decision = self._with_c(spec, a, b, bias, decision)
            else:
                decision = self._cublaslt(spec, a, b, bias, decision)
        elif self.terms.numerics == "batch_invariant" and 0 not in spec.sizes.values():
            reason = f"the operands are on {a.device}"
            decision = dataclasses.replace(decision, reason=reason, run=cublaslt_calls.refusing(reason))
        if len(self.decisions) >= MAX_SIGNATURES:
            self.decisions.clear()
        self.decisions[key] = decision
        return decision

    def _aten(self, spec: Contraction, a: torch.Tensor, b: torch.Tensor) -> Decision:
        source, run = aten.runner_of(spec, self.terms, a.stride(), b.stride())
        return Decision("aten", source, "", run)

    def _with_c(
        self, spec: Contraction, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, fallback: Decision
    ) -> Decision:
        """A bias as large as the result, or a scaled one, is the GEMM's C: seen in the order of the output."""
        full = as_c(spec)
        unbiased = dataclasses.replace(spec, bias=None)
        terms = Terms(alpha=True, c=True, numerics=self.terms.numerics)
        other = aten.expression(unbiased, terms, a.stride(), b.stride())
        plain = self._cublaslt(unbiased, a, b, None, Decision("aten", other, "", aten.runner(other, terms)))
        if plain.engine != "cublaslt":
            return dataclasses.replace(fallback, reason=plain.reason)

        def run(
            a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, c: None, alpha: float, beta: float
        ) -> torch.Tensor:
            return plain.run(a, b, None, full(a, b, bias), alpha, beta)

        return dataclasses.replace(plain, run=run)

    def _cublaslt(
        self, spec: Contraction, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, fallback: Decision
    ) -> Decision:
        numerics = self.terms.numerics
        found = cublaslt_calls.decide(spec, a, b, bias, fallback.run, anywhere=forced, numerics=numerics)
        if found.run is None:
            return dataclasses.replace(fallback, reason=found.reason)
        if found.guess is not None and self.terms.plain and bias is None and not recording.active:
            guesses[self.text] = found.guess
        return Decision("cublaslt", found.detail, found.reason, found.run, found.calls, found.copies)


def _generic(pattern: Pattern) -> Contraction | None:
    """The contraction with every label kept, as if no size were 1; None if a joined dimension has to be split."""
    tensors = (pattern.a, pattern.b, pattern.out, pattern.bias or ())
    if any(len(dim) > 1 for dims in tensors for dim in dims):
        return None
    names = list(dict.fromkeys(n for dims in tensors for dim in dims for n in dim))
    numbered = [tuple(tuple(names.index(n) for n in dim) for dim in dims) for dims in tensors]
    sizes = dict.fromkeys(range(len(names)), 2)
    a, b, out, bias = numbered
    return Contraction(a, b, out, sizes, None if pattern.bias is None else bias)
