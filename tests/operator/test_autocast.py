"""torch.autocast: eager's dtype rules for a matmul, with gradients in the leaves' own dtypes."""

import pytest
import torch

import thunder_gemm_ex as gx

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
SPECS = ["m k, n k -> m n", "m k, n k -> n m"]


def eager(a, b):
    return torch.matmul(a, b.t())


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("second", FLOATS, ids=str)
@pytest.mark.parametrize("first", FLOATS, ids=str)
def test_dtypes_are_matmuls(first, second, low, spec):
    a, b = torch.randn(3, 4).to(first), torch.randn(2, 4).to(second)
    with torch.autocast("cpu", dtype=low):
        try:
            expected = eager(a, b)
        except RuntimeError:
            with pytest.raises(ValueError, match=r"b is .* and must be as a"):
                gx.gemm(a, b, spec)
            return
        out = gx.gemm(a, b, spec)
    assert out.dtype == expected.dtype
    torch.testing.assert_close(out if spec == SPECS[0] else out.t(), expected)


@pytest.mark.parametrize("spec", SPECS)
def test_all_terms_are_cast_and_gradients_keep_their_leafs_dtype(spec):
    shape = (3, 2) if spec == SPECS[0] else (2, 3)
    tensors = [torch.randn(s, requires_grad=True) for s in [(3, 4), (2, 4), shape[1:], shape]]
    a, b, bias, c = tensors
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = gx.gemm(a, b, spec, bias=bias, activation="gelu", beta=2, c=c)
        exact = gx.gemm(
            *(x.bfloat16() for x in (a, b)), spec, bias=bias.bfloat16(), activation="gelu", beta=2, c=c.bfloat16()
        )
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, exact)
    for x, g in zip(tensors, torch.autograd.grad(out.sum(), tensors)):
        assert (g.dtype, g.shape) == (x.dtype, x.shape)


def test_nothing_is_cast_outside_of_it_or_where_it_is_off():
    a, b = torch.randn(3, 4), torch.randn(2, 4, dtype=torch.bfloat16)
    for enabled in (None, False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(enabled)):
            with pytest.raises(ValueError, match="nothing is cast here"):
                gx.gemm(a, b, "m k, n k -> n m")
    integers = torch.ones(2, 3, dtype=torch.int64), torch.ones(3, 2, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert gx.gemm(*integers, "m k, k n -> n m").dtype == torch.int64
