"""An eager product of two matrices that sums nothing: a multiply, for which BLAS takes up to twice as long.

Only what must be known at every call is asked for there: in a compiled program K=1 is known when compiling (rules/multiply).
"""

from __future__ import annotations

import torch

from thunder_gemm_ex.engines.aten import compile_expression
from thunder_gemm_ex.engines.terms import Compute
from thunder_gemm_ex.spec import Pattern

_autocast = torch._C._is_any_autocast_enabled
_grad = torch.is_grad_enabled


def multiply_of(pattern: Pattern, call: Compute) -> tuple[Compute | None, int]:
    """(what computes the product of matrices `pattern` where k is 1, the dimension of a that is k).

    (None, 0) for other patterns: a dimension that both operands and the result have would be broadcast, not checked,
    and with more of them a multiply may leave in the order of a permuted operand.
    """
    if {len(pattern.a), len(pattern.b), len(pattern.out)} != {2}:
        return None, 0
    summed = [[i for i, dim in enumerate(dims) if dim not in pattern.out] for dims in (pattern.a, pattern.b)]
    if [len(dims) for dims in summed] != [1, 1]:
        # Among dimensions that are 1 in the spec itself none tells which is summed: "1 1, 1 1 -> 1 1".
        return None, 0
    (in_a,), (in_b,) = summed
    # [rows, 1] * [1, columns], whichever operand has the rows.
    rows, columns = ("a", "b") if pattern.a[1 - in_a] == pattern.out[0] else ("b", "a")
    at = {"a": in_a, "b": in_b}
    multiply = compile_expression(f"mul({rows}{'.t()' * (at[rows] == 0)}, {columns}{'.t()' * (at[columns] == 1)})")

    def outer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # A multiply accepts what a product refuses, is not cast by autocast, and its gradients are sums.
        if a.dtype is not b.dtype or not a.is_floating_point() or b.size(in_b) != 1 or _autocast():
            return call(a, b)
        if (a.requires_grad or b.requires_grad) and _grad():
            return call(a, b)
        return multiply(a, b)

    return outer, in_a
