"""Every trans, leading dimension, batch and dtype: one cublasLtMatmul each, right against float64."""

import itertools

import pytest
import torch

from tests.cublaslt.problems import DTYPES, assert_right, padded, run, spec_of
from tests.engines.test_aten import laid_out

A_ORDERS = {"N": (0, 1), "T": (1, 0)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pad", [0, 3], ids=["tight", "padded"])
@pytest.mark.parametrize("out", ["m n", "n m"])
@pytest.mark.parametrize(("ta", "tb"), list(itertools.product("NT", "NT")))
def test_two_dimensional(double, ta, tb, out, pad, dtype):
    """Operands as views of [m, k] and [k, n] that lie in memory either way round."""
    spec = spec_of(f"m k, k n -> {out}", (5, 7), (7, 6))
    a, b = padded((5, 7), A_ORDERS[ta], dtype, pad), padded((7, 6), A_ORDERS[tb], dtype, pad)
    status, result = run(spec, a, b)
    assert (status, double.calls()) == (0, 1)
    assert_right(spec, a, b, result)
    # The flags are what the memory says: an output [n, m] turns both operands, as PyTorch counts.
    assert double.last()["k"] == 7


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", ["tight", "padded", "expanded a", "expanded b"])
@pytest.mark.parametrize("out", ["b m n", "b n m"])
@pytest.mark.parametrize(("ta", "tb"), list(itertools.product("NT", "NT")))
def test_strided_batched(double, ta, tb, out, batch, dtype):
    spec = spec_of(f"b m k, b k n -> {out}", (3, 5, 7), (3, 7, 6))
    order = {"N": (0, 1, 2), "T": (0, 2, 1)}
    pad = 2 if batch == "padded" else 0
    a = padded((1 if batch == "expanded a" else 3, 5, 7), order[ta], dtype, pad).expand(3, 5, 7)
    b = padded((1 if batch == "expanded b" else 3, 7, 6), order[tb], dtype, pad).expand(3, 7, 6)
    status, result = run(spec, a, b)
    assert (status, double.calls(), double.last()["batch"]) == (0, 1, 3)
    assert_right(spec, a, b, result)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("a b k, n k -> a b n", (3, 4, 7), (6, 7)),
        ("a b k, k n -> a b n", (3, 4, 7), (7, 6)),
        ("k j m, k j n -> n m", (3, 4, 7), (3, 4, 6)),
        ("k j m, k j n -> m n", (3, 4, 7), (3, 4, 6)),
        ("b h m k, b h n k -> b h m n", (2, 3, 4, 7), (2, 3, 6, 7)),
        ("b h g m k, b h n k -> b h g m n", (2, 3, 2, 4, 7), (2, 3, 6, 7)),
        ("m 1 k, 1 k n -> m n", (5, 1, 7), (1, 7, 6)),
        ("1 k, k n -> 1 n", (1, 7), (7, 6)),
        ("m k, k 1 -> m 1", (5, 7), (7, 1)),
        ("m 1, 1 n -> m n", (5, 1), (1, 6)),
        ("1 k, k 1 -> 1 1", (1, 7), (7, 1)),
        ("m k, k -> m", (5, 7), (7,)),
        ("k, k n -> n", (7,), (7, 6)),
        ("k, k -> ", (7,), (7,)),
        ("m, n -> m n", (5,), (6,)),
        ("1 1, 1 1 -> 1 1", (1, 1), (1, 1)),
    ],
)
def test_merged_and_missing_dimensions_are_one_call(double, text, a, b, dtype):
    spec = spec_of(text, a, b)
    x, y = (laid_out(s, tuple(range(len(s))), dtype) for s in (a, b))
    status, result = run(spec, x, y)
    assert (status, double.calls()) == (0, 1)
    assert_right(spec, x, y, result)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("text", "a", "b", "bias"),
    [
        ("m k, n k, n -> m n", (5, 7), (6, 7), (6,)),
        ("m k, k n, n -> m n", (5, 7), (7, 6), (6,)),
        ("a b k, n k, n -> a b n", (3, 4, 7), (6, 7), (6,)),
        ("1 k, n k, n -> 1 n", (1, 7), (6, 7), (6,)),
        ("m k, n k, m -> n m", (5, 7), (6, 7), (5,)),
        ("b m k, b k n, n -> b m n", (3, 5, 7), (3, 7, 6), (6,)),
    ],
)
def test_a_bias_is_one_epilogue(double, text, a, b, bias, dtype):
    spec = spec_of(text, a, b, bias)
    x, y, z = (laid_out(s, tuple(range(len(s))), dtype) for s in (a, b, bias))
    status, result = run(spec, x, y, bias=z)
    assert (status, double.calls(), double.last()["epilogue"]) == (0, 1, 4)
    assert_right(spec, x, y, result, bias=z)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("c", ["as d", "padded", "batch expanded"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0)])
def test_scaled_and_accumulated(double, alpha, beta, c, dtype):
    spec = spec_of("b m k, b k n -> b m n", (3, 5, 7), (3, 7, 6))
    x, y = torch.randn(3, 5, 7).to(dtype), torch.randn(3, 7, 6).to(dtype)
    z = padded((1 if c == "batch expanded" else 3, 5, 6), (0, 1, 2), dtype, 2 if c == "padded" else 0).expand(3, 5, 6)
    status, result = run(spec, x, y, c=z, alpha=alpha, beta=beta)
    assert (status, double.calls()) == (0, 1)
    assert_right(spec, x, y, result, c=z, alpha=alpha, beta=beta)


def test_with_beta_zero_c_is_not_read(double):
    spec = spec_of("m k, k n -> m n", (5, 7), (7, 6))
    x, y = torch.randn(5, 7), torch.randn(7, 6)
    _, result = run(spec, x, y, c=torch.full((5, 6), torch.nan), beta=0.0)
    assert_right(spec, x, y, result)


@pytest.mark.parametrize("left", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("right", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (2, 0, 1, 3)], ids=str)
def test_every_order_of_attention_operands_is_right_or_declined(double, left, right):
    """[b, h, s, d] operands in any memory order: one call, or a loop over one label, or declined with a reason."""
    from tests.cublaslt.problems import bound

    spec = spec_of("b h s d, b h t d -> b h s t", (2, 3, 4, 5), (2, 3, 6, 5))
    x, y = laid_out((2, 3, 4, 5), left), laid_out((2, 3, 6, 5), right)
    status, result = run(spec, x, y)
    plan = bound(spec).explain(x, y, result)
    if status:
        assert plan["declined"]
        assert double.calls() == 0
        return
    assert plan["declined"] == ""
    assert double.calls() == plan["calls"] <= 3
    assert_right(spec, x, y, result)


@pytest.mark.parametrize(
    ("text", "a", "b", "calls"),
    [
        ("b h s d, b h t d -> b h s t", (2, 3, 4, 5), (2, 3, 6, 5), 1),
        ("b s h d, b t h d -> b h s t", (2, 4, 3, 5), (2, 6, 3, 5), 2),
        ("b h s t, b t h d -> b s (h d)", (2, 3, 4, 6), (2, 6, 3, 5), 2),
        ("b s h d, b t h d -> b h s t", (1, 4, 3, 5), (1, 6, 3, 5), 1),
        ("b h g s d, b h t d -> b h g s t", (2, 3, 2, 4, 5), (2, 3, 6, 5), 1),
    ],
)
def test_attention_is_one_call_or_a_loop_over_b(double, text, a, b, calls):
    spec = spec_of(text, a, b)
    x, y = torch.randn(a), torch.randn(b)
    status, result = run(spec, x, y)
    assert (status, double.calls()) == (0, calls)
    assert_right(spec, x, y, result)


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_alignments_tell_the_truth(double, offset, dtype):
    """A slice that starts at element 1 lies on a 2-, 4- or 8-byte boundary; the double refuses a lie."""
    spec = spec_of("m k, k n -> m n", (5, 7), (7, 6))
    x = torch.randn(40).to(dtype)[offset : offset + 35].view(5, 7)
    y = torch.randn(7, 6).to(dtype)
    status, result = run(spec, x, y)
    assert status == 0
    assert_right(spec, x, y, result)


def test_the_output_is_written_where_it_is_and_nowhere_else(double):
    spec = spec_of("m k, k n -> m n", (5, 7), (7, 6))
    whole = torch.full((9, 10), 42.0)
    x, y = torch.randn(5, 7), torch.randn(7, 6)
    status, result = run(spec, x, y, out=whole[2:7, 3:9])
    assert status == 0
    assert_right(spec, x, y, result)
    whole[2:7, 3:9] = 42.0
    assert torch.equal(whole, torch.full((9, 10), 42.0))


@pytest.mark.parametrize(
    ("dtype", "flags", "compute"),
    [(torch.float32, 0, 68), (torch.float32, 1, 77), (torch.float64, 1, 70), (torch.bfloat16, 1, 68)],
    ids=str,
)
def test_tf32_is_a_flag_of_fp32_alone(double, dtype, flags, compute):
    spec = spec_of("m k, k n -> m n", (5, 7), (7, 6))
    run(spec, torch.randn(5, 7).to(dtype), torch.randn(7, 6).to(dtype), flags=flags)
    assert double.last()["compute"] == compute


@pytest.mark.parametrize(("flags", "reductions"), [(0, 7), (2, 2), (4, 0), (6, 0)])
def test_reduction_schemes_follow_the_flags(double, flags, reductions):
    spec = spec_of("m k, k n -> m n", (5, 7), (7, 6))
    run(spec, torch.randn(5, 7).half(), torch.randn(7, 6).half(), flags=flags)
    assert double.last()["reductions"] == reductions
