"""fp8 as torch._scaled_mm defines it, int8 into int32: the layout that the library takes is the planner's to produce."""

import pytest
import torch

from tests.cublaslt.problems import spec_of
from thunder_gemm_ex.engines.operation import Operation

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
M, N, K = 6, 32, 48
SCALED = ("m k, n k -> m n", (M, K), (N, K))


def fp8(shape, dtype=E4M3):
    return torch.randn(shape).to(dtype)


def exact(a, b, scale_a=1.0, scale_b=1.0):
    """a [m, k], b [n, k]."""
    return (a.double() @ b.double().t()) * scale_a * scale_b


def close(got, want):
    eps = torch.finfo(got.dtype).eps
    torch.testing.assert_close(got.double(), want, rtol=2 * eps, atol=1e-6)


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("a", "b"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)], ids=str)
def test_per_tensor_scales(double, a, b, out):
    x, w = fp8((M, K), a), fp8((N, K), b)
    sa, sb = torch.tensor(0.5), torch.tensor(4.0)
    got = Operation(spec_of(*SCALED), out_dtype=out)(x, w, scale_a=sa, scale_b=sb)
    close(got.out, exact(x, w, 0.5, 4.0))
    assert (double.calls(), double.last()["trans_a"], double.last()["trans_b"]) == (1, 1, 0)


def test_per_tensor_is_what_torch_computes(double):
    x, w = fp8((16, K)), fp8((N, K))
    sa, sb = torch.tensor(0.5), torch.tensor(4.0)
    ours = Operation(spec_of("m k, n k -> m n", (16, K), (N, K)), out_dtype=torch.float32)(x, w, scale_a=sa, scale_b=sb)
    theirs = torch._scaled_mm(x, w.t(), scale_a=sa, scale_b=sb, out_dtype=torch.float32)
    torch.testing.assert_close(ours.out, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("out", ["m n", "n m"])
def test_row_wise_scales(fresh_double, out):
    fresh_double.lib.double_version(120900)
    with fresh_double.opened():
        x, w = fp8((32, K)), fp8((N, K))
        sa, sb = torch.rand(32, 1) + 0.5, torch.rand(1, N) + 0.5
        got = Operation(spec_of(f"m k, n k -> {out}", (32, K), (N, K)))(x, w, scale_a=sa, scale_b=sb)
        want = exact(x, w, sa.double(), sb.double())
        close(got.out, want if out == "m n" else want.t())
        assert fresh_double.calls() == 1


def test_row_wise_scales_are_declined_by_a_library_that_has_none(double):
    op = Operation(spec_of(*SCALED))
    args = {"scale_a": torch.ones(M, 1), "scale_b": torch.ones(1, N)}
    assert op(fp8((M, K)), fp8((N, K)), **args) is None
    assert op.why(fp8((M, K)), fp8((N, K)), **args) == "row-wise scales need cublasLt 12.9"


@pytest.mark.parametrize("k_first_a", [False, True])
@pytest.mark.parametrize("k_first_b", [False, True])
@pytest.mark.parametrize("dtype", [E4M3, torch.int8], ids=str)
def test_the_one_layout_is_produced_whatever_the_operands_lie_like(double, dtype, k_first_a, k_first_b):
    """An operand that is not contiguous along k is copied; one that is, never."""
    text = f"{'k m' if k_first_a else 'm k'}, {'k n' if k_first_b else 'n k'} -> m n"
    x, w = torch.randint(-4, 5, (M, K)).to(dtype), torch.randint(-4, 5, (N, K)).to(dtype)
    a, b = (t.t().contiguous() if turned else t for t, turned in ((x, k_first_a), (w, k_first_b)))
    op = Operation(spec_of(text, tuple(a.shape), tuple(b.shape)))
    got = op(a, b)
    assert torch.equal(got.out.double(), exact(x, w).to(got.out.dtype).double())
    assert (double.calls(), double.last()["trans_a"], double.last()["trans_b"]) == (1, 1, 0)
    advised = op.bound.explain(a, b, got.out).get("copy", {})
    assert set(advised) == ({"a"} if k_first_a else set()) | ({"b"} if k_first_b else set())


def test_a_row_that_is_no_multiple_of_16_bytes_is_copied_to_one_that_is(double):
    """ld % 16: rows of 48 that lie 49 apart."""
    x = torch.randint(-4, 5, (M, K + 1)).to(E4M3)[:, :K]
    w = fp8((N, K))
    got = Operation(spec_of(*SCALED))(x, w)
    close(got.out, exact(x, w).to(torch.bfloat16).double())
    assert (double.last()["lda"] % 16, double.last()["ldb"] % 16) == (0, 0)


@pytest.mark.parametrize("text", ["a m k, n k -> a m n", "m k, a n k -> a m n"])
def test_batches_of_fp8(double, text):
    shapes = {"a m k, n k -> a m n": ((2, M, K), (N, K)), "m k, a n k -> a m n": ((M, K), (2, N, K))}[text]
    x, w = (fp8(s) for s in shapes)
    got = Operation(spec_of(text, *shapes))(x, w)
    close(got.out, torch.einsum(text.replace(" ", ""), x.double(), w.double()).to(torch.bfloat16).double())


def test_a_bias_of_a_float32_output_is_bfloat16(double):
    x, w, z = fp8((M, K)), fp8((N, K)), torch.randn(N).to(torch.bfloat16)
    got = Operation(spec_of("m k, n k, n -> m n", (M, K), (N, K), (N,)), out_dtype=torch.float32)(x, w, bias=z)
    torch.testing.assert_close(got.out.double(), exact(x, w) + z.double(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("fast", [False, True])
def test_fast_accumulation_reaches_the_descriptor(double, fast):
    Operation(spec_of(*SCALED), fast_accumulate=fast)(fp8((M, K)), fp8((N, K)))
    assert double.last()["fast_accumulate"] == fast


def test_int8_gives_exact_int32(double):
    x, w = torch.randint(-128, 128, (M, K), dtype=torch.int8), torch.randint(-128, 128, (N, K), dtype=torch.int8)
    got = Operation(spec_of(*SCALED))(x, w, alpha=2)
    assert got.out.dtype is torch.int32
    assert torch.equal(got.out.long(), 2 * x.long() @ w.long().t())


@pytest.mark.parametrize(
    ("dtype", "shapes", "reason"),
    [
        (E4M3, ((M, 40), (N, 40)), "k in multiples of 16"),
        (E4M3, ((M, K), (30, K)), "multiple"),
        (torch.int8, ((M, 42), (N, 42)), "k in multiples of 4"),
        (E5M2, ((M, K), (N, K)), "two e5m2 operands"),
    ],
)
def test_what_the_library_has_no_kernel_for_is_declined(double, dtype, shapes, reason):
    a, b = (torch.ones(s).to(dtype) for s in shapes)
    op = Operation(spec_of("m k, n k -> m n", *shapes))
    assert op(a, b) is None
    assert reason in op.why(a, b) or "output" in op.why(a, b)
    assert double.calls() == 0


def test_an_operand_between_16_bytes_is_declined(double):
    a = torch.ones(M * K + 16).to(E4M3)[8 : 8 + M * K].view(M, K)
    op = Operation(spec_of(*SCALED))
    assert op(a, fp8((N, K))) is None
    assert "16 bytes" in op.why(a, fp8((N, K)))


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"scale_a": torch.ones(5, 1), "scale_b": torch.ones(1, N)}, "scale_a has 5 elements where 1 or 6 are right"),
        ({"scale_a": torch.ones(()).double()}, "scale_a must be float32"),
        ({"scale_b": torch.ones(1, 2 * N)[:, ::2]}, "scale_b of shape .* must be contiguous"),
    ],
)
def test_scales_that_do_not_fit_are_refused(double, scales, message):
    with pytest.raises(ValueError, match=message):
        Operation(spec_of(*SCALED))(fp8((M, K)), fp8((N, K)), **scales)


def test_scales_of_other_types_are_refused(double):
    with pytest.raises(ValueError, match="only fp8 operands are scaled"):
        Operation(spec_of(*SCALED))(torch.ones(M, K), torch.ones(N, K), scale_a=torch.ones(()))


def test_a_fraction_of_an_int8_product_is_refused(double):
    with pytest.raises(ValueError, match="whole int32 numbers"):
        Operation(spec_of(*SCALED))(torch.ones(M, K).to(torch.int8), torch.ones(N, K).to(torch.int8), alpha=0.5)
