"""Problems in every layout, run through the extension and checked against float64."""

import torch

from tests.engines.test_aten import laid_out
from tests.spec.reference import evaluate
from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.spec import Contraction, parse

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def sizes_of(spec: Contraction) -> list[int]:
    """Sizes by atom, as the extension wants them."""
    return [spec.sizes.get(i, 1) for i in range(max(spec.sizes, default=-1) + 1)]


def bound(spec: Contraction) -> cublaslt.Bound:
    """The spec bound in the extension."""
    return cublaslt.bind(spec.a, spec.b, spec.bias, spec.out, sizes_of(spec))


def padded(shape, order, dtype, pad: int) -> torch.Tensor:
    """As `laid_out`, with rows `pad` elements longer than they need be."""
    inner = order[-1]
    full = [size + (pad if i == inner else 0) for i, size in enumerate(shape)]
    return laid_out(full, order, dtype).narrow(inner, 0, shape[inner])


def run(spec: Contraction, a, b, out=None, bias=None, c=None, alpha=1.0, beta=0.0, flags=0):
    """Run a spec; returns (status, out)."""
    out = torch.full(spec.shape(spec.out), torch.nan, dtype=a.dtype) if out is None else out
    return bound(spec).run(a, b, out, bias, c, alpha, beta, flags), out


def assert_right(spec: Contraction, a, b, out, bias=None, c=None, alpha=1.0, beta=0.0):
    """Within rounding of the product in float64: one rounding of the result, plus fp32 sums for fp32."""
    exact = alpha * evaluate(spec, a.double(), b.double(), None)
    if bias is not None:
        exact = evaluate(spec, torch.zeros_like(a).double(), b.double(), bias.double()) + exact
    if c is not None:
        exact = exact + beta * c.double()
    eps = torch.finfo(out.dtype).eps
    torch.testing.assert_close(out.double(), exact, rtol=2 * eps, atol=4 * eps * max(1.0, exact.abs().max().item()))


def spec_of(text, a, b, bias=None) -> Contraction:
    """Parse and bind."""
    return parse(text).bind(a, b, bias)


def bound_and_out(spec):
    """The contraction in the extension, and memory for its result."""
    return bound(spec), torch.empty(spec.shape(spec.out))
