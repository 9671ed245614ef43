"""From a spec text and tensors to a call: the one place where a running program enters the engines.

What was decided is kept in `sites`; here is how a call finds it, in as few steps as possible.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from thunder_gemm_ex.engines import aten, cublaslt, epilogues, outer, recording, sites
from thunder_gemm_ex.engines import scaled as scaled_mm
from thunder_gemm_ex.engines.sites import Decision, Site
from thunder_gemm_ex.engines.terms import Compute, Terms

__all__ = ["Decision", "Site", "checked_calls", "everywhere", "forget", "run_gemm", "run_scaled", "serves", "site"]

_sites: dict[tuple[str, Terms], Site] = {}
_plain_sites: dict[str, Site] = {}
# Those that `_run_with_terms` asks for: by text, whether there are a factor, a bias, a factor of the bias, numerics.
_termed_sites: dict[tuple[str, bool, bool, bool, str], Site] = {}
_guesses = sites.guesses
_TENSOR, _PARAMETER = torch.Tensor, torch.nn.Parameter
# Specs that one torch call means on anything but CUDA, and that call: found without asking the site.
_direct_calls: dict[str, Compute] = {}
# Those whose call itself refuses operands whose sizes do not fit: (call, rank of a, of b, and what to do where one
# dimension of a, of size 1, is all that is summed, None where that is no gain; that dimension).
checked_calls: dict[str, tuple[Compute, int, int, Compute | None, int]] = {}


def site(text: str, terms: Terms = Terms()) -> Site:  # noqa: B008 - frozen
    """The site of a spec text, made on first use."""
    found = _sites.get((text, terms))
    if found is None:
        found = _sites[text, terms] = Site(text, terms)
        if terms.plain:
            _plain_sites[text] = found
            _note_direct_call(found)
    return found


def _note_direct_call(made: Site) -> None:
    if made.direct is None or sites.forced:
        return
    name = made.direct.detail.partition("(")[0]
    call = aten.NAMES[name] if made.direct.detail == f"{name}(a, b)" else made.direct.run
    _direct_calls[made.text] = call
    # matmul broadcasts batch dimensions that one label of the spec says are equal.
    if name != "matmul":
        multiply, k = outer.multiply_of(made.pattern, call)
        checked_calls[made.text] = (call, len(made.pattern.a), len(made.pattern.b), multiply, k)


def run_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None = None,
    alpha: float | torch.Tensor | None = None,
    beta: float = 1,
    numerics: str | None = None,
    epilogue: str | None = None,
    aux: torch.Tensor | None = None,
) -> epilogues.Made:
    """What a compiled trace calls as `gemm`: D = alpha * a b + beta * bias, summed as `numerics` says (None: "torch").

    With an epilogue what `epilogues.Epilogue` returns.
    """
    if bias is not None or alpha is not None or numerics is not None or epilogue is not None:
        mode = numerics or "torch"
        if epilogue is None:
            return _run_with_terms(a, b, spec, bias, 1 if alpha is None else alpha, beta, mode)
        alpha = 1 if alpha is None else alpha
        # The graph fuses an epilogue only behind an alpha that is a number.
        whole = epilogues.made_for(site, sites.forced, spec, epilogue, mode)
        return whole(a, b, bias, alpha, beta, aux)  # type: ignore[arg-type]
    if spec in _guesses:
        # Written out here: a call more would cost as much as all of these lines.
        run, new, flags = _guesses[spec]
        type_a, type_b = type(a), type(b)
        if (type_a is _TENSOR or type_a is _PARAMETER) and (type_b is _TENSOR or type_b is _PARAMETER):
            out = new()
            if run(a, b, out, flags()) == 0:
                return out
    call = _direct_calls.get(spec)
    if call is not None and not a.is_cuda:
        return call(a, b)
    found = _plain_sites.get(spec)
    return site(spec)(a, b) if found is None else found(a, b)


def _run_with_terms(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    bias: torch.Tensor | None,
    alpha: float | torch.Tensor,
    beta: float,
    numerics: str,
) -> torch.Tensor:
    if isinstance(alpha, torch.Tensor):
        value = alpha.item()
        if value == 0 or not math.isfinite(value):
            # A GEMM skips the product where alpha is 0, and inf * 0 of a product is NaN: multiplied as eager does.
            return _run_with_terms(a, b, spec, bias, 1, beta, numerics) * alpha
        alpha = value
    biased = bias is not None
    # Of plain values: to make Terms and hash them takes longer than all the rest of this call.
    key = (spec, alpha != 1, biased, biased and beta != 1, numerics)
    found = _termed_sites.get(key)
    if found is None:
        terms = Terms(alpha=key[1], bias=biased, scaled_bias=key[3], numerics=numerics)
        found = _termed_sites[key] = site(spec, terms)
    return found(a, b, bias, None, alpha, beta if biased else 0)


def run_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    fast_accumulate: bool = False,
    numerics: str | None = None,
) -> torch.Tensor:
    """What a compiled trace calls as `scaled_gemm`."""
    how = scaled_mm.How(out_dtype, fast_accumulate, numerics or "torch")
    return scaled_mm.made_for(sites.forced, spec, how)(a, b, scale_a, scale_b, bias)


def serves(device: str, dtype: torch.dtype) -> bool:
    """Whether products of such tensors go to the cublaslt engine where the machine has one; `device` as "cuda"."""
    return (device == "cuda" or sites.forced) and dtype in cublaslt.DTYPES and cublaslt.is_built()


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
    tables: tuple[dict[Any, Any], ...] = (_sites, _plain_sites, _termed_sites, _guesses, _direct_calls, checked_calls)
    saved, forced = [dict(table) for table in tables], sites.forced
    for table in tables:
        table.clear()
    sites.forced = True
    try:
        yield
    finally:
        sites.forced = forced
        for table, before in zip(tables, saved):
            table.clear()
            table.update(before)
