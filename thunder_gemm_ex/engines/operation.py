"""One contraction with its epilogue, element types and numerics, as a Python call: what trace rules put in a trace.

`choose` serves products that ATen can compute as well; what only cuBLASLt computes in one call (activations with what their
gradients read, bias gradients, fp8 and int8 with scales) is an `Operation`. It says None where the engine declines, and
`why` says why: the caller then has torch's own operations.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from thunder_gemm_ex.engines import cublaslt, cublaslt_calls
from thunder_gemm_ex.engines.numerics import FAST_ACCUMULATE, flags_reader
from thunder_gemm_ex.spec import Contraction, mask_shape, parse

_FP8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
WRITES_AUX = ("relu_aux", "gelu_aux")
READS_AUX = ("drelu", "dgelu")
WRITES_BIAS = ("drelu", "dgelu", "bgrada", "bgradb")


class Outputs(NamedTuple):
    """What an operation computed; aux and bias_grad are None where its epilogue has none."""

    out: torch.Tensor
    aux: torch.Tensor | None = None
    bias_grad: torch.Tensor | None = None


class Operation:
    """`out = epilogue(alpha * scale_a * scale_b * a b + beta * c + bias)` for operands of one set of shapes.

    Args:
        spec: the contraction. Its bias is added, except where the epilogue writes it: with "bgrada" and "bgradb" it is a or
            b summed over k, with "drelu" and "dgelu" `out` summed over all labels that the bias lacks.
        epilogue: one of `cublaslt.EPILOGUES`. "relu_aux" also writes the mask of what was positive, "gelu_aux" the values
            before the (tanh) GELU; "drelu" and "dgelu" multiply by the derivative that such an aux gives.
        numerics: one of `numerics.MODES`.
        out_dtype: of fp8 operands (default torch.bfloat16); int8 gives int32, other operands their own dtype.
        fast_accumulate: let fp8 sums be less precise than fp32, as torch._scaled_mm's `use_fast_accum`.
    """

    def __init__(
        self,
        spec: Contraction,
        epilogue: str = "",
        *,
        numerics: str = "torch",
        out_dtype: torch.dtype | None = None,
        fast_accumulate: bool = False,
    ) -> None:
        if epilogue not in cublaslt.EPILOGUES:
            raise ValueError(f"epilogue must be one of {', '.join(map(repr, cublaslt.EPILOGUES))}, was {epilogue!r}")
        self.spec, self.epilogue, self.numerics = spec, epilogue, numerics
        self.out_dtype, self.fast = out_dtype, FAST_ACCUMULATE if fast_accumulate else 0
        self.bound = cublaslt.bind(spec.a, spec.b, spec.bias, spec.out, cublaslt_calls.dense(spec), epilogue)
        flags_reader(torch.float32, numerics)  # a mode that there is not is said here

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        aux: torch.Tensor | None = None,
        scale_a: torch.Tensor | None = None,
        scale_b: torch.Tensor | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        out: torch.Tensor | None = None,
    ) -> Outputs | None:
        """None where the engine declines. Bias gradients and aux are allocated here; an aux that is read is given.

        Raises ValueError for tensors that do not fit, RuntimeError when the library fails.
        """
        self._check(aux)
        if any(t is not None and t.is_neg() for t in (a, b, bias, c, aux)):
            return None
        out = (
            torch.empty(self.spec.shape(self.spec.out), dtype=self._out_dtype(a), device=a.device)
            if out is None
            else out
        )
        given_aux, bias_grad = aux, None
        if self.epilogue in WRITES_AUX:
            aux = self.new_aux(out)
        if self.epilogue in WRITES_BIAS and self.spec.bias is not None:
            bias = bias_grad = torch.empty(self.spec.shape(self.spec.bias), dtype=out.dtype, device=a.device)
        flags = flags_reader(a.dtype, self.numerics)() | self.fast
        terms = (bias, c, aux, scale_a, scale_b)
        if self.bound.full(a, b, out, *terms, float(alpha), float(beta), flags, ""):
            x, y = self._copied(a, b, out, bias, c, aux, scale_a, scale_b, flags)
            if x is None or self.bound.full(x, y, out, *terms, float(alpha), float(beta), flags, ""):
                return None
        return Outputs(out, aux if given_aux is None else None, bias_grad)

    def why(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        aux: torch.Tensor | None = None,
        scale_a: torch.Tensor | None = None,
        scale_b: torch.Tensor | None = None,
    ) -> str:
        """Why a call with these operands is declined, "" if it is not."""
        out = torch.empty(self.spec.shape(self.spec.out), dtype=self._out_dtype(a), device=a.device)
        if aux is None and self.epilogue in WRITES_AUX:
            aux = self.new_aux(out)
        if self.spec.bias is not None and bias is None:
            bias = torch.empty(self.spec.shape(self.spec.bias), dtype=out.dtype, device=a.device)
        flags = flags_reader(a.dtype, self.numerics)() | self.fast
        plan = self.bound.explain(a, b, out, bias, c, flags, aux=aux, scale_a=scale_a, scale_b=scale_b)
        declined: str = plan["declined"]
        if not declined or not plan.get("copy"):
            return declined
        x, y = cublaslt_calls.copied(a, plan["copy"].get("a")), cublaslt_calls.copied(b, plan["copy"].get("b"))
        plan = self.bound.explain(x, y, out, bias, c, flags, aux=aux, scale_a=scale_a, scale_b=scale_b)
        declined = plan["declined"]
        return declined

    def new_aux(self, out: torch.Tensor) -> torch.Tensor:
        """An aux for `out`: uint8 of [..., rows of 128 bits] for ReLU, else out's dtype with rows of a multiple of 8."""
        shape, last = tuple(out.shape[:-1]), out.shape[-1] if out.ndim else 1
        if self.epilogue in ("relu_aux", "drelu"):
            return out.new_empty(mask_shape(out.shape), dtype=torch.uint8)
        return out.new_empty((*shape, -(-last // 8) * 8))[..., :last].reshape(out.shape)

    def _check(self, aux: torch.Tensor | None) -> None:
        if (aux is not None) != (self.epilogue in READS_AUX):
            which = "reads an aux, but aux is None" if aux is None else "reads no aux, but aux was given"
            raise ValueError(f"epilogue {self.epilogue!r} {which}")

    def _out_dtype(self, a: torch.Tensor) -> torch.dtype:
        if a.dtype in _FP8:
            return self.out_dtype or torch.bfloat16
        return torch.int32 if a.dtype is torch.int8 else a.dtype

    def _copied(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
        bias: torch.Tensor | None,
        c: torch.Tensor | None,
        aux: torch.Tensor | None,
        scale_a: torch.Tensor | None,
        scale_b: torch.Tensor | None,
        flags: int,
    ) -> tuple[torch.Tensor, torch.Tensor] | tuple[None, None]:
        """The operands copied as the planner advises, or (None, None) where no copy helps."""
        plan = self.bound.explain(a, b, out, bias, c, flags, aux=aux, scale_a=scale_a, scale_b=scale_b)
        copy = plan.get("copy")
        if not copy:
            return None, None
        return cublaslt_calls.copied(a, copy.get("a")), cublaslt_calls.copied(b, copy.get("b"))


@functools.lru_cache(maxsize=1024)
def operation(
    spec: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    bias: tuple[int, ...] | None = None,
    epilogue: str = "",
    numerics: str = "torch",
    out_dtype: torch.dtype | None = None,
    fast_accumulate: bool = False,
) -> Operation:
    """The operation for a spec text and shapes, made once: what a call in a trace asks for."""
    contraction = parse(spec).bind(a, b, bias)
    return Operation(contraction, epilogue, numerics=numerics, out_dtype=out_dtype, fast_accumulate=fast_accumulate)
