"""Contractions: torch's matmul shapes, gradients, layouts."""

import itertools

import pytest
import torch

from tests.spec.reference import evaluate
from thunder_gemm_ex.spec import Contraction, SpecError, parse, plain

SHAPES = [(3,), (1,), (2, 3), (1, 3), (2, 1), (4, 2, 3), (1, 2, 3), (4, 1, 3), (5, 4, 2, 3), (5, 1, 2, 3), (1, 1, 1, 1)]


def _pairs():
    for a, b in itertools.product(SHAPES, SHAPES):
        b = b if len(b) == 1 else (*b[:-2], b[-1], b[-2])
        try:
            torch.matmul(torch.empty(a), torch.empty(b))
        except RuntimeError:
            continue
        yield a, b


@pytest.mark.parametrize(("a", "b"), list(_pairs()))
def test_plain_is_torch_matmul(a, b):
    x, y = torch.randn(a, dtype=torch.float64), torch.randn(b, dtype=torch.float64)
    spec = plain([a, b])
    spec.check()
    torch.testing.assert_close(evaluate(spec, x, y), torch.matmul(x, y))


@pytest.mark.parametrize("bias", [None, (4,), ()])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (5, 2, 3), (2, 1), (1,)])
def test_plain_with_a_transposed_weight_is_torch_linear(shape, bias):
    x, w = torch.randn(shape, dtype=torch.float64), torch.randn(4, shape[-1], dtype=torch.float64)
    bias = None if bias is None else torch.randn(bias, dtype=torch.float64)
    shapes = [shape, tuple(w.shape)] + ([] if bias is None else [tuple(bias.shape)])
    spec = plain(shapes, transposed_b=True)
    torch.testing.assert_close(
        evaluate(spec, x, w, bias), torch.nn.functional.linear(x, w, None) + (bias if bias is not None else 0)
    )


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("m k, k n -> m n", (2, 3), (3, 4)),
        ("a b k, n k -> a b n", (2, 3, 4), (5, 4)),
        ("b m h k, b n h k -> b h m n", (2, 3, 4, 5), (2, 6, 4, 5)),
        ("b h m k, b k h n -> b m (h n)", (2, 3, 4, 5), (2, 5, 3, 6)),
        ("k, k -> ", (4,), (4,)),
    ],
)
def test_gradients_of_a_spec_are_autograds(text, a, b):
    spec = parse(text).bind(a, b)
    x = torch.randn(a, dtype=torch.float64, requires_grad=True)
    y = torch.randn(b, dtype=torch.float64, requires_grad=True)
    out = evaluate(spec, x, y)
    g = torch.randn_like(out)
    dx, dy = torch.autograd.grad(out, (x, y), g)
    torch.testing.assert_close(evaluate(spec.grad_a(), g, y), dx)
    torch.testing.assert_close(evaluate(spec.grad_b(), x, g), dy)


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("m k, k n -> m n", "NN"),
        ("m k, n k -> m n", "NT"),
        ("k m, k n -> m n", "TN"),
        ("k m, n k -> m n", "TT"),
        ("b m h k, b n h k -> b h m n", "NT"),
    ],
)
def test_layout_is_shown_as_pytorch_reads_it(text, layout):
    rank = [len(part.split()) for part in text.split("->")[0].split(",")]
    assert parse(text).bind((2,) * rank[0], (2,) * rank[1]).layout() == layout


@pytest.mark.parametrize(
    "spec",
    [
        Contraction(((0,), (0,)), ((1,),), ((0,),), {0: 2, 1: 3}),
        Contraction(((0,), (1,)), ((2,),), ((0,), (2,)), {0: 2, 1: 3, 2: 4}),
        Contraction(((0,),), ((1,),), ((0,), (1,), (2,)), {0: 2, 1: 3, 2: 4}),
        Contraction(((0,),), ((1,),), ((0,), (1,)), {0: 2, 1: 3, 2: 4}, ((2,),)),
    ],
)
def test_check_refuses_labels_without_a_place(spec):
    with pytest.raises(SpecError):
        spec.check()
