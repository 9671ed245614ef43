"""torch._scaled_mm, of which Thunder knows nothing, as one symbol of a trace. It has no gradient, as in eager."""

from __future__ import annotations

import torch
from thunder.core import dtypes
from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.extend import FusionExecutor

from thunder_gemm_ex.front_door import eager as asking
from thunder_gemm_ex.front_door.places import Function, placed
from thunder_gemm_ex.graph import SCALED_MM


def open_scaled(executor: FusionExecutor) -> dict[Function, Function]:
    """Let programs compiled with `executor` call torch._scaled_mm; what it is recorded as, for ThunderFX's splitter."""
    symbol = executor.register_operator(SCALED_MM, meta=_meta, fn=_eager, tags=[OpTags.MATMUL_OP])
    enter = _entry(symbol)
    executor._lookasides[torch._scaled_mm] = placed(enter)
    return {torch._scaled_mm: enter}


def _entry(symbol: Symbol) -> Function:
    # Named and ordered as the schema of aten::_scaled_mm has them.
    def _scaled_mm(
        input: TensorProxy,
        mat2: TensorProxy,
        scale_a: TensorProxy,
        scale_b: TensorProxy,
        bias: TensorProxy | None = None,
        scale_result: object = None,
        out_dtype: torch.dtype | None = None,
        use_fast_accum: bool = False,
    ) -> TensorProxy:
        if scale_result is not None:
            raise ValueError("scale_result is a tensor, and inside a compiled program it must be None")
        for name, value in (("input", input), ("mat2", mat2)):
            if type(value) is not TensorProxy:
                raise TypeError(f"{name} must be a plain torch.Tensor, was {type(value).__name__}")
        args = (input, mat2, scale_a, scale_b, bias, out_dtype, bool(use_fast_accum))
        fits = input.ndim == mat2.ndim == 2 and input.shape[1] == mat2.shape[0]
        if not fits or not {input.dtype, mat2.dtype} <= {dtypes.float8_e4m3fn, dtypes.float8_e5m2}:
            said = asking.error(torch._scaled_mm, (input, mat2, scale_a, scale_b), {"out_dtype": out_dtype})
            raise said or ValueError(
                f"input and mat2 must be fp8 matrices that multiply, were {input.dtype}{tuple(input.shape)} and "
                f"{mat2.dtype}{tuple(mat2.shape)}"
            )
        return symbol(*args)

    return _scaled_mm


def _meta(
    a: TensorProxy,
    b: TensorProxy,
    scale_a: TensorProxy,
    scale_b: TensorProxy,
    bias: TensorProxy | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> TensorProxy:
    return TensorProxy(
        like=a, shape=(a.shape[0], b.shape[1]), dtype=a.dtype if out_dtype is None else dtypes.to_dtype(out_dtype)
    )


def _eager(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    return torch._scaled_mm(a, b, scale_a, scale_b, bias=bias, out_dtype=out_dtype, use_fast_accum=use_fast_accum)
