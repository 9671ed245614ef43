"""The contraction spec: parse, print, compose with views, differentiate, cost. Knows neither torch nor thunder."""

from thunder_gemm_ex.spec.contraction import Contraction, SpecError, atoms_of, convolution, plain
from thunder_gemm_ex.spec.cost import Cost, cost
from thunder_gemm_ex.spec.masks import MASK_BITS, mask_shape
from thunder_gemm_ex.spec.notation import Pattern, parse, print_spec
from thunder_gemm_ex.spec.views import Broadcast, Permute, Reshape, Step, coalesce, fold_operand, fold_result

__all__ = [
    "MASK_BITS",
    "Broadcast",
    "Contraction",
    "Cost",
    "Pattern",
    "Permute",
    "Reshape",
    "SpecError",
    "Step",
    "atoms_of",
    "coalesce",
    "convolution",
    "cost",
    "fold_operand",
    "fold_result",
    "mask_shape",
    "parse",
    "plain",
    "print_spec",
]
