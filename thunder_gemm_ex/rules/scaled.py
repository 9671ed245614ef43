"""Rule: torch._scaled_mm is a contraction of scaled fp8 operands: "m k, k n -> m n" until its operands' views fold."""

from __future__ import annotations

from thunder_gemm_ex.graph import SCALED_MM, Graph, Matmul, Scales, shapes
from thunder_gemm_ex.rules.find import Declined
from thunder_gemm_ex.spec import plain

_FP8 = ("float8_e4m3fn", "float8_e5m2")


def find_scaled(graph: Graph) -> list[Declined]:
    """Put scaled products among the matmuls of the graph; returns those that no rule may touch."""
    declined = []
    for position, bsym in enumerate(graph.bsyms):
        if bsym is None or bsym.sym.name != SCALED_MM:
            continue
        a, b, scale_a, scale_b, bias, out_dtype, fast = (*bsym.args, None, None, False)[:7]
        sizes = shapes([a, b])
        if sizes is None:
            declined.append(Declined(position, bsym, SCALED_MM, "a size is only known when running"))
        elif any(name in str(bsym.output.dtype) for name in _FP8):
            declined.append(Declined(position, bsym, SCALED_MM, "its output is fp8, which is left to torch"))
        else:
            spec = plain(sizes)
            spec = spec if bias is None else spec.with_bias(spec.out[-1:])
            scales = Scales(scale_a, scale_b, out_dtype, fast)
            graph.matmuls[position] = Matmul(position, bsym, SCALED_MM, spec, a, b, bsym.output, bias, scales=scales)
    return declined
