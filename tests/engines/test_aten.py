"""The ATen engine: every layout of operands gives right numbers, a contiguous output, no copy eager would not make."""

import dataclasses
import itertools

import pytest
import torch

from tests.spec.reference import evaluate
from thunder_gemm_ex.engines.aten import compile_expression, direct, expression
from thunder_gemm_ex.engines.terms import Terms
from thunder_gemm_ex.spec import parse

CASES = [
    ("m k, k n -> m n", (3, 4), (4, 5)),
    ("k m, n k -> n m", (4, 3), (5, 4)),
    ("a b k, n k -> a b n", (2, 3, 4), (5, 4)),
    ("a b m, a b n -> n m", (2, 3, 4), (2, 3, 5)),
    ("b m k, b k n -> b m n", (2, 3, 4), (2, 4, 5)),
    ("b m k, b n k -> b n m", (2, 3, 4), (2, 5, 4)),
    ("b h s d, b h t d -> b h s t", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("b s h d, b t h d -> b h s t", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("b h s t, b t h d -> b s (h d)", (2, 3, 4, 6), (2, 6, 3, 5)),
    ("b h g s d, b h t d -> b h g s t", (2, 3, 2, 4, 5), (2, 3, 6, 5)),
    ("a k j, k n j -> n a", (2, 3, 4), (3, 5, 4)),
    ("c k b, c b n -> n k b", (3, 4, 2), (3, 2, 5)),
    ("m 1, 1 n -> m n", (3, 1), (1, 5)),
    ("b m 1, b 1 n -> b n m", (2, 3, 1), (2, 1, 5)),
    ("m, n -> m n", (3,), (4,)),
    ("k, k -> ", (4,), (4,)),
    ("m k, k -> m", (3, 4), (4,)),
    ("k, k n -> n", (4,), (4, 5)),
]


def laid_out(shape, order, dtype=torch.float32):
    """A random tensor of `shape` whose dimensions lie in memory in the given order."""
    x = torch.randn([shape[i] for i in order], dtype=torch.float64).to(dtype)
    return x.permute([order.index(i) for i in range(len(shape))])


def layouts():
    for text, a, b in CASES:
        for left in itertools.permutations(range(len(a))):
            for right in itertools.permutations(range(len(b))):
                yield text, a, b, left, right


def by_case(cases):
    grouped = {}
    for text, a, b, left, right in cases:
        grouped.setdefault(text, []).append((a, b, left, right))
    return grouped.items()


@pytest.mark.parametrize(
    "terms", [Terms(), Terms(alpha=True), Terms(bias=True), Terms(c=True), Terms(True, True, True)], ids=str
)
@pytest.mark.parametrize(("text", "orders"), by_case(layouts()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_layout_of_both_operands(text, orders, terms):
    for a_shape, b_shape, left, right in orders:
        spec = parse(text).bind(a_shape, b_shape)
        a, b = laid_out(a_shape, left), laid_out(b_shape, right)
        out_shape = spec.shape(spec.out)
        bias = torch.randn(out_shape[-1:]) if terms.bias else None
        c = torch.randn(out_shape) if terms.c else None
        if terms.bias:
            spec = dataclasses.replace(spec, bias=spec.out[-1:])
        alpha, beta = (2.0 if terms.alpha else 1), (0.5 if terms.c else 0)
        out = compile_expression(expression(spec, terms, a.stride(), b.stride()))(a, b, bias, c, alpha, beta)
        exact = alpha * evaluate(dataclasses.replace(spec, bias=None), a.double(), b.double())
        exact = exact + (0 if c is None else beta * c.double()) + (0 if bias is None else bias.double())
        assert out.is_contiguous()
        assert out.shape == out_shape
        torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64], ids=str
)
@pytest.mark.parametrize(("text", "a", "b"), CASES)
def test_every_dtype(text, a, b, dtype):
    x, y = (torch.randint(-3, 4, s).to(dtype) for s in (a, b))
    spec = parse(text).bind(a, b)
    out = compile_expression(expression(spec, Terms(), x.stride(), y.stride()))(x, y)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert out.dtype == dtype
    torch.testing.assert_close(out.to(wide), evaluate(spec, x.to(wide), y.to(wide)))


@pytest.mark.parametrize(
    ("text", "a", "b", "source"),
    [
        ("m k, k n -> m n", (3, 4), (4, 5), "mm(a, b)"),
        ("m k, n k -> m n", (3, 4), (5, 4), "linear(a, b)"),
        ("k m, k n -> m n", (4, 3), (4, 5), "mm(a.mT, b)"),
        ("k m, n k -> m n", (4, 3), (5, 4), "mm(a.mT, b.mT)"),
        ("k m, k n -> n m", (4, 3), (4, 5), "mm(b.mT, a)"),
        ("a b k, n k -> a b n", (2, 3, 4), (5, 4), "linear(a, b)"),
        ("a b k, k n -> a b n", (2, 3, 4), (4, 5), "matmul(a, b)"),
        ("b m k, b n k -> b m n", (2, 3, 4), (2, 5, 4), "bmm(a, b.mT)"),
        ("b h m k, b h n k -> b h m n", (2, 3, 4, 5), (2, 3, 6, 5), "matmul(a, b.mT)"),
        ("m, n -> m n", (3,), (4,), None),
        ("a b m, a b n -> n m", (2, 3, 4), (2, 3, 5), None),
    ],
)
def test_where_one_torch_call_means_the_spec_that_call_is_made(text, a, b, source):
    assert direct(parse(text).bind(a, b), Terms()) == source


def test_a_linear_keeps_its_bias():
    spec = parse("a b k, n k, n -> a b n").bind((2, 3, 4), (5, 4), (5,))
    assert direct(spec, Terms(bias=True)) == "linear(a, b, bias)"


def test_a_bias_along_m_is_not_taken_for_a_linear():
    spec = parse("m k, n k, m -> m n").bind((5, 4), (5, 4), (5,))
    assert direct(spec, Terms(bias=True)) is None


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("a b m, a b n -> n m", (6, 8, 16), (6, 8, 32)),
        ("a b k, n k -> a b n", (6, 8, 16), (32, 16)),
        ("b m k, b n k -> b n m", (6, 8, 16), (6, 32, 16)),
        ("b h g s d, b h t d -> b h g s t", (2, 3, 2, 8, 16), (2, 3, 32, 16)),
    ],
)
def test_contiguous_operands_are_never_copied(text, a, b):
    x, y = torch.randn(a), torch.randn(b)
    spec = parse(text).bind(a, b)
    run = compile_expression(expression(spec, Terms(), x.stride(), y.stride()))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(x, y)
    assert not {e.key for e in profile.key_averages()} & {"aten::clone", "aten::copy_", "aten::contiguous"}


def test_of_two_orders_of_k_the_one_that_copies_less_is_taken():
    spec = parse("k j m, j k n -> m n").bind((3, 4, 2), (4, 3, 50))
    x, y = torch.randn(3, 4, 2), torch.randn(4, 3, 50)
    source = expression(spec, Terms(), x.stride(), y.stride())
    # The small operand is rearranged (its joined k needs the copy), the large one is only reshaped.
    assert "a.permute(" in source
    assert "b.permute(" not in source


@pytest.mark.parametrize("shapes", [((3, 0), (0, 5)), ((0, 4), (4, 5)), ((3, 4), (4, 0))])
def test_empty_sizes_give_what_matmul_gives(shapes):
    a, b = (torch.randn(s) for s in shapes)
    spec = parse("m k, k n -> m n").bind(*shapes)
    out = compile_expression(expression(spec, Terms(), a.stride(), b.stride()))(a, b)
    assert torch.equal(out, a @ b)
