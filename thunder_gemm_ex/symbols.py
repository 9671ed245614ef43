"""The Thunder symbol `gemm`: its meta function, how a trace prints it, and the compile options of the executor."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import torch
from thunder.core import dtypes
from thunder.core.codeutils import prettyprint
from thunder.core.compile_data import get_compile_option
from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.extend import FusionExecutor

from thunder_gemm_ex.engines.choose import run_gemm, run_scaled
from thunder_gemm_ex.engines.numerics import MODES
from thunder_gemm_ex.engines.operation import WRITES_AUX, WRITES_BIAS
from thunder_gemm_ex.spec import Contraction, Pattern, SpecError, mask_shape, parse


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Pattern:
    return parse(text)


def gemm_meta(
    a: TensorProxy,
    b: TensorProxy,
    spec: str,
    bias: TensorProxy | None = None,
    alpha: float | TensorProxy = 1,
    beta: float = 1,
    *,
    numerics: str | None = None,
    epilogue: str | None = None,
    aux: TensorProxy | None = None,
) -> TensorProxy | tuple[TensorProxy, ...]:
    """The output of `alpha * a b + beta * bias` as the spec labels it. SpecError where shapes do not fit the spec.

    With an epilogue that writes more, a tuple: the output, the aux, and the bias gradient if the spec labels one.
    """
    contraction: Contraction = _parsed(spec).bind(a.shape, b.shape, None if bias is None else bias.shape)
    for name, operand in (("b", b), ("bias", bias)):
        if operand is not None and (operand.dtype != a.dtype or operand.device != a.device):
            raise SpecError(f"{name} is {operand.dtype} on {operand.device}, and must be as a: {a.dtype} on {a.device}")
    out = TensorProxy(like=a, shape=contraction.shape(contraction.out))
    beside = []
    if epilogue in WRITES_AUX:
        mask = epilogue == "relu_aux"
        beside.append(TensorProxy(like=out, shape=mask_shape(out.shape), dtype=dtypes.uint8) if mask else out)
    if epilogue in WRITES_BIAS and contraction.bias is not None:
        beside.append(TensorProxy(like=out, shape=contraction.shape(contraction.bias)))
    return (out, *beside) if beside else out


def print_gemm(
    bsym: BoundSymbol, out_printables: Any, arg_printables: Sequence[Any], kwarg_printables: dict[str, Any]
) -> str:
    """`t5 = gemm(x, w, "a b k, n k -> a b n")`: the spec in double quotes, arguments at their defaults left out."""
    defaults: list[Any] = [None, 1, 1]
    a, b, spec, bias, alpha, beta = (*arg_printables, *defaults[len(arg_printables) - 3 :])
    shown = [prettyprint(a), prettyprint(b), f'"{spec}"']
    shown += [] if bias is None else [prettyprint(bias)]
    for name, value in (("alpha", alpha), ("beta", beta)):
        default = not isinstance(value, TensorProxy) and value == 1
        shown += [] if default else [f"{name}={prettyprint(value)}"]
    for name, value in kwarg_printables.items():
        written = f'"{value}"' if isinstance(value, str) else prettyprint(value)
        shown += [] if value is None else [f"{name}={written}"]
    made = out_printables if isinstance(out_printables, tuple) else (out_printables,)
    outs, types = (", ".join(prettyprint(x, **how) for x in made) for how in ({}, {"with_type": True}))
    return f"{outs} = gemm({', '.join(shown)})  # {types}"


def define_gemm(executor: FusionExecutor) -> Symbol:
    """Register `gemm` with the executor. Not recomputed in a backward unasked: it is a matmul."""
    return executor.register_operator(
        "gemm",
        meta=gemm_meta,
        fn=run_gemm,
        tags=[OpTags.MATMUL_OP, OpTags.DONT_AUTO_RECOMPUTE_IN_BACKWARD],
        python_printer=print_gemm,
    )


def scaled_gemm_meta(
    a: TensorProxy,
    b: TensorProxy,
    spec: str,
    scale_a: TensorProxy,
    scale_b: TensorProxy,
    bias: TensorProxy | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    fast_accumulate: bool = False,
    numerics: str | None = None,
) -> TensorProxy:
    """The output of `scale_a * scale_b * a b + bias` of fp8 operands, as torch._scaled_mm defines it."""
    contraction = _parsed(spec).bind(a.shape, b.shape, None if bias is None else bias.shape)
    return TensorProxy(
        like=a,
        shape=contraction.shape(contraction.out),
        dtype=a.dtype if out_dtype is None else dtypes.to_dtype(out_dtype),
    )


def _print_scaled(
    bsym: BoundSymbol, out_printables: Any, arg_printables: Sequence[Any], kwarg_printables: dict[str, Any]
) -> str:
    a, b, spec, scale_a, scale_b, bias = arg_printables
    shown = [prettyprint(a), prettyprint(b), f'"{spec}"', prettyprint(scale_a), prettyprint(scale_b)]
    shown += [] if bias is None else [prettyprint(bias)]
    for name, value in kwarg_printables.items():
        shown += [f"{name}={prettyprint(value)}"] if value else []
    out = prettyprint(out_printables, literals_as_underscores=True)
    return f"{out} = scaled_gemm({', '.join(shown)})  # {prettyprint(out_printables, with_type=True)}"


def define_scaled_gemm(executor: FusionExecutor) -> Symbol:
    """Register `scaled_gemm` with the executor: products of fp8 operands, whose scales and types `gemm` does not have."""
    return executor.register_operator(
        "scaled_gemm",
        meta=scaled_gemm_meta,
        fn=run_scaled,
        tags=[OpTags.MATMUL_OP, OpTags.DONT_AUTO_RECOMPUTE_IN_BACKWARD],
        python_printer=_print_scaled,
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """The compile options of the executor, as given to thunder.jit."""

    claim: str
    small: str
    numerics: str
    epilogue: bool


_ALLOWED = {
    "gemm_claim": (("patterns", "all"), "Which matmuls become gemm: those with something to fold, or all."),
    "gemm_small": (
        ("k1", "vector", "small", "off"),
        "Which matmuls become pointwise operations: with K=1, with m or n of 1 too, small ones too, or none.",
    ),
    "gemm_numerics": (
        MODES,
        "How sums may be rounded: as torch's flags say, strictly, or alike for any number of rows.",
    ),
    "gemm_epilogue": ((True, False), "Whether neighbours of a matmul may become part of its call."),
}


def read_options() -> Options:
    """The options of the program being compiled. ValueError names an option whose value is not one of its choices."""
    values: dict[str, Any] = {}
    for name, (choices, doc) in _ALLOWED.items():
        value = get_compile_option(name, f"{doc} One of {', '.join(map(repr, choices))}; default {choices[0]!r}.")
        if value is not None and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, was {value!r}")
        values[name.removeprefix("gemm_")] = choices[0] if value is None else value
    return Options(**values)
