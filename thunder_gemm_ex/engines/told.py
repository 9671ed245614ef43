"""What was decided at run time, for reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from thunder_gemm_ex.engines import aten, choose, epilogues
from thunder_gemm_ex.engines import scaled as scaled_mm
from thunder_gemm_ex.engines.sites import Decision, Site

# What `runs_of` calls the epilogue of a `scaled_gemm`.
SCALED = "scaled"


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
        return [Run(Decision(engine, does, why, _no_run), 1, {}, s, t) for engine, does, why, s, t in found_runs]
    made = [
        found
        for (spec, terms), found in choose._sites.items()
        if spec == text
        and terms.scaled_bias == scaled_bias
        and scaled in (None, terms.alpha)
        and terms.numerics == numerics
    ]
    return [run for found in made for run in _runs(found, tuple(a), tuple(b))]


def _no_run(*_args: object) -> Any:
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
