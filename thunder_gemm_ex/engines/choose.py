"""From a spec text and tensors to a call: which engine, and the one place where a running program enters the engines.

A `Site` is everything that was decided for one spec text. Where one torch call means the spec whatever its operands'
layout, that call *is* the site; otherwise it keeps one decision for each signature (shapes, strides, device).
Nothing is parsed, planned or compiled after the first call with a signature.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import torch

from thunder_gemm_ex.engines import aten, cublaslt, cublaslt_calls, epilogues, recording
from thunder_gemm_ex.engines import scaled as scaled_mm
from thunder_gemm_ex.engines.epilogues import as_c, is_full
from thunder_gemm_ex.spec import Contraction, Pattern, SpecError, parse

# Signatures kept for a site before all are forgotten: a program has one or two, only eager use with ever new shapes more.
MAX_SIGNATURES = 512


@dataclasses.dataclass(frozen=True)
class Decision:
    """How one signature of a site is carried out. `calls` and `copies` of the aten engine: see `aten.account`."""

    engine: str
    detail: str
    reason: str
    run: Callable
    calls: int = 1
    copies: Mapping[str, int] = MappingProxyType({})


class Site:
    """The decisions for one spec text and one set of terms; call it with (a, b, bias, c, alpha, beta)."""

    def __init__(self, text: str, terms: aten.Terms) -> None:
        self.text = text
        self.terms = terms
        self.pattern: Pattern = parse(text)
        self.decisions: dict[tuple, Decision] = {}
        if self.pattern.bias is not None and not terms.bias:
            raise SpecError(f"bias is None, and the spec '{text}' labels one: give it, or leave its labels out")
        whole = None if terms.numerics == "batch_invariant" else _generic(self.pattern)
        source = None if whole is None else aten.direct(whole, terms)
        self.direct = Decision("aten", source, "", aten.runner(source, terms)) if source else None

    def run(self, a, b, bias=None, c=None, alpha=1, beta=0, *, differentiable=False):
        """Run the contraction; with `differentiable` through torch's own operations, which autograd records."""
        if not differentiable:
            return self(a, b, bias, c, alpha, beta)
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        return self._aten(spec, a, b).run(a, b, bias, c, alpha, beta)

    def __call__(self, a, b, bias=None, c=None, alpha=1, beta=0):
        """Run the contraction; the operands have been checked when compiling, or by `gx.gemm`."""
        direct = self.direct
        if direct is not None and not a.is_cuda and not _forced:
            return direct.run(a, b, bias)
        key = (a.shape, a.stride(), b.shape, b.stride(), a.device, a.dtype, None if bias is None else bias.shape)
        decision = self.decisions.get(key)
        if decision is None:
            decision = self._decide(key, a, b, bias)
        return decision.run(a, b, bias, c, alpha, beta)

    def decision_for(self, a, b, bias=None) -> Decision:
        """What a call with these operands would do; for reports."""
        if self.direct is not None and not a.is_cuda and not _forced:
            return self.direct
        key = (a.shape, a.stride(), b.shape, b.stride(), a.device, a.dtype, None if bias is None else bias.shape)
        return self.decisions.get(key) or self._decide(key, a, b, bias)

    def _decide(self, key: tuple, a, b, bias) -> Decision:
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        decision = self._aten(spec, a, b)
        if a.is_cuda or _forced:
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

    def _aten(self, spec: Contraction, a, b) -> Decision:
        source = aten.expression(spec, self.terms, a.stride(), b.stride())
        return Decision("aten", source, "", aten.runner(source, self.terms))

    def _with_c(self, spec: Contraction, a, b, bias, fallback: Decision) -> Decision:
        """A bias as large as the result, or a scaled one, is the GEMM's C: seen in the order of the output."""
        full = as_c(spec)
        unbiased = dataclasses.replace(spec, bias=None)
        terms = aten.Terms(alpha=True, c=True, numerics=self.terms.numerics)
        other = aten.expression(unbiased, terms, a.stride(), b.stride())
        plain = self._cublaslt(unbiased, a, b, None, Decision("aten", other, "", aten.runner(other, terms)))
        if plain.engine != "cublaslt":
            return dataclasses.replace(fallback, reason=plain.reason)

        def run(a, b, bias, c, alpha, beta):
            return plain.run(a, b, None, full(a, b, bias), alpha, beta)

        return dataclasses.replace(plain, run=run)

    def _cublaslt(self, spec: Contraction, a, b, bias, fallback: Decision) -> Decision:
        numerics = self.terms.numerics
        found = cublaslt_calls.decide(spec, a, b, bias, fallback.run, anywhere=_forced, numerics=numerics)
        if found.run is None:
            return dataclasses.replace(fallback, reason=found.reason)
        if found.guess is not None and self.terms.plain and bias is None and not recording.active:
            _guesses[self.text] = found.guess
        return Decision("cublaslt", found.detail, found.reason, found.run, found.calls, found.copies)


def _generic(pattern: Pattern) -> Contraction | None:
    """The contraction with every label kept, as if no size were 1; None if a joined dimension has to be split."""
    tensors = (pattern.a, pattern.b, pattern.out, pattern.bias or ())
    if any(len(dim) > 1 for dims in tensors for dim in dims):
        return None
    names = list(dict.fromkeys(n for dims in tensors for dim in dims for n in dim))
    numbered = [tuple(tuple(names.index(n) for n in dim) for dim in dims) for dims in tensors]
    sizes = dict.fromkeys(range(len(names)), 2)
    return Contraction(*numbered[:3], sizes, None if pattern.bias is None else numbered[3])


_sites: dict[tuple[str, aten.Terms], Site] = {}
_plain_sites: dict[str, Site] = {}
# How the cublaslt engine did a spec last: tried first, and found out by the extension where the operands are others.
_guesses: dict[str, cublaslt_calls.Guess] = {}
_TENSOR, _PARAMETER, _empty_like = torch.Tensor, torch.nn.Parameter, torch.empty_like
# Specs that one torch call means on anything but CUDA, and that call: found without asking the site.
_direct_calls: dict[str, Callable] = {}
# Those whose call itself refuses operands whose sizes do not fit: (call, rank of a, of b).
checked_calls: dict[str, tuple[Callable, int, int]] = {}
_forced = False
# What `runs_of` calls the epilogue of a `scaled_gemm`.
SCALED = "scaled"


def site(text: str, terms: aten.Terms = aten.Terms()) -> Site:  # noqa: B008 - frozen
    """The site of a spec text, made on first use."""
    found = _sites.get((text, terms))
    if found is None:
        found = _sites[text, terms] = Site(text, terms)
        if terms.plain:
            _plain_sites[text] = found
            _note_direct_call(found)
    return found


def _note_direct_call(made: Site) -> None:
    if made.direct is None or _forced:
        return
    name = made.direct.detail.partition("(")[0]
    call = aten.NAMES[name] if made.direct.detail == f"{name}(a, b)" else made.direct.run
    _direct_calls[made.text] = call
    # matmul broadcasts batch dimensions that one label of the spec says are equal.
    if name != "matmul":
        checked_calls[made.text] = (call, len(made.pattern.a), len(made.pattern.b))


def run_gemm(a, b, spec, bias=None, alpha=None, beta=1, numerics=None, epilogue=None, aux=None):
    """What a compiled trace calls as `gemm`: D = alpha * a b + beta * bias, summed as `numerics` says (None: "torch").

    With an epilogue what `epilogues.Epilogue` returns.
    """
    if bias is not None or alpha is not None or numerics is not None or epilogue is not None:
        mode = numerics or "torch"
        if epilogue is None:
            return _run_with_terms(a, b, spec, bias, 1 if alpha is None else alpha, beta, mode)
        alpha = 1 if alpha is None else alpha
        return epilogues.run(site, _forced, spec, epilogue, mode, a, b, bias, alpha, beta, aux)
    if spec in _guesses:
        # Written out here: a call more would cost as much as all of these lines.
        run, template, flags = _guesses[spec]
        type_a, type_b = type(a), type(b)
        if (type_a is _TENSOR or type_a is _PARAMETER) and (type_b is _TENSOR or type_b is _PARAMETER):
            out = _empty_like(template)
            if run(a, b, out, flags()) == 0:
                return out
    call = _direct_calls.get(spec)
    if call is not None and not a.is_cuda:
        return call(a, b)
    found = _plain_sites.get(spec)
    return site(spec)(a, b) if found is None else found(a, b)


def _run_with_terms(a, b, spec, bias, alpha, beta, numerics):
    if isinstance(alpha, torch.Tensor):
        value = alpha.item()
        if value == 0 or not math.isfinite(value):
            # A GEMM skips the product where alpha is 0, and inf * 0 of a product is NaN: multiplied as eager does.
            return _run_with_terms(a, b, spec, bias, 1, beta, numerics) * alpha
        alpha = value
    biased = bias is not None
    terms = aten.Terms(alpha=alpha != 1, bias=biased, scaled_bias=biased and beta != 1, numerics=numerics)
    return site(spec, terms)(a, b, bias, None, alpha, beta if biased else 0)


def run_scaled(a, b, spec, scale_a, scale_b, bias=None, *, out_dtype=None, fast_accumulate=False, numerics=None):
    """What a compiled trace calls as `scaled_gemm`."""
    how = scaled_mm.How(out_dtype, fast_accumulate, numerics or "torch")
    return scaled_mm.run(_forced, spec, how, a, b, scale_a, scale_b, bias)


def serves(device: str, dtype: torch.dtype) -> bool:
    """Whether products of such tensors go to the cublaslt engine where the machine has one; `device` as "cuda"."""
    return (device == "cuda" or _forced) and dtype in cublaslt.DTYPES and cublaslt.is_built()


@dataclasses.dataclass(frozen=True)
class Run:
    """What was decided for calls with operands of these strides; `copies`: elements copied in each call, by tensor."""

    decision: Decision
    calls: int
    copies: Mapping[str, int]
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]


def runs_of(
    text: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    *,
    scaled: bool | None,
    scaled_bias: bool,
    numerics: str = "torch",
    epilogue: str = "",
) -> list[Run]:
    """What was decided in this process for a spec text and operands of the shapes `a` and `b`; for reports.

    `scaled`: whether the call has an alpha, None if that depends on the call.
    """
    if epilogue:
        shapes = tuple(a), tuple(b)
        whole = scaled_mm.runs_of(text, numerics, *shapes) if epilogue == SCALED else None
        found_runs = epilogues.runs_of(text, epilogue, numerics, *shapes) if whole is None else whole
        return [Run(Decision(*does, _no_run), 1, {}, *strides) for *does, s, t in found_runs for strides in [(s, t)]]
    made = [
        found
        for (spec, terms), found in _sites.items()
        if spec == text
        and terms.scaled_bias == scaled_bias
        and scaled in (None, terms.alpha)
        and terms.numerics == numerics
    ]
    return [run for found in made for run in _runs(found, tuple(a), tuple(b))]


def _no_run(*_args) -> None:
    """A decision that is only reported."""


def _runs(found: Site, a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[Run]:
    fitting = [(key, made) for key, made in found.decisions.items() if (tuple(key[0]), tuple(key[2])) == (a, b)]
    if found.direct is not None and not fitting:
        yield Run(found.direct, 1, {}, (), ())
    for key, decision in fitting:
        calls, copies = decision.calls, decision.copies
        if decision.engine == "aten":
            calls, copies = aten.account(found.pattern.bind(a, b, key[6]), found.terms, key[1], key[3])
        yield Run(decision, calls, copies, key[1], key[3])


def forget() -> None:
    """Decide anew at the next call of every spec: what was decided may have been tuned since."""
    for found in _sites.values():
        found.decisions.clear()
    _guesses.clear()


def _without_guesses() -> Callable[[], None]:
    saved = dict(_guesses)
    _guesses.clear()
    return lambda: _guesses.update(saved)


# Guesses go past the place where calls are noted.
recording.suspended.append(_without_guesses)


@contextlib.contextmanager
def everywhere() -> Iterator[None]:
    """Within this block the cublaslt engine also takes CPU tensors: for a library that computes in host memory."""
    global _forced
    tables = (_sites, _plain_sites, _guesses, _direct_calls, checked_calls)
    saved, forced = [dict(table) for table in tables], _forced
    for table in tables:
        table.clear()
    _forced = True
    try:
        yield
    finally:
        _forced = forced
        for table, before in zip(tables, saved):
            table.clear()
            table.update(before)
