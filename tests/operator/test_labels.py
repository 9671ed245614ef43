"""The label algebra: specs of gradients and batches follow from a spec's text, whatever the sizes."""

import pytest
import torch

from tests.operator.problems import PROBLEMS
from tests.spec.reference import evaluate
from thunder_gemm_ex.operator.labels import batched, gradient_dims, label_bias, pattern_of, untold, write
from thunder_gemm_ex.operator.sizes import gradient_text, resolve, spread_to, summed_to
from thunder_gemm_ex.spec import SpecError, parse


@pytest.mark.parametrize(
    ("text", "grad_a", "grad_b"),
    [
        ("m k, k n -> m n", "m n, k n -> m k", "m k, m n -> k n"),
        ("a b k, n k -> a b n", "a b n, n k -> a b k", "a b k, a b n -> n k"),
        ("b h s t, b t h d -> b s (h d)", "b s (h d), b t h d -> b h s t", "b h s t, b s (h d) -> b t h d"),
        ("k, k -> ", ", k -> k", "k,  -> k"),
        ("m 1, 1 n -> m n", "m n, 1 n -> m 1", "m 1, m n -> 1 n"),
    ],
)
def test_gradients_of_a_spec(text, grad_a, grad_b):
    for operand, expected in (("a", grad_a), ("b", grad_b)):
        a, b, out, stated = gradient_dims(text, operand)
        assert (write(a, b, out), stated) == (expected, ())


def test_a_size_that_only_the_bias_told_is_stated_in_a_gradient():
    fitted = resolve("m k, k (n u), n -> m (u n)", (3, 4), (4, 6), (2,))
    assert gradient_text(fitted, "b") == "m k, m (u:3 n) -> k (n u)"
    parse(gradient_text(fitted, "b")).bind((3, 4), (3, 6))


def test_a_size_that_the_gradients_shapes_tell_is_not_stated():
    fitted = resolve("m p k, (n u:3) k -> m n p u", (2, 4, 7), (6, 7), None)
    assert gradient_text(fitted, "a") == "m n p u, (n u) k -> m p k"


def test_untold_labels():
    assert untold((("n", "u"),), (("n",),)) == ()
    assert untold((("n", "u"),), (("k",),)) == ("n",)
    assert untold((("n", "u", "v"), ("n",)), ()) == ("u",)


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((0, None, None), ("v m k, k n -> v m n", 0)),
        ((2, None, None), ("m k v, k n -> v m n", 0)),
        ((0, 1, None), ("v m k, k v n -> v m n", 0)),
        # b alone, its batch just outside n: one dimension of one GEMM.
        ((None, 1, None), ("m k, k v n -> m v n", 1)),
        # b alone, but k lies between: in front.
        ((None, 0, None), ("m k, v k n -> v m n", 0)),
        ((None, 2, None), ("m k, k n v -> v m n", 0)),
    ],
)
def test_a_batch_is_a_label_more(dims, expected):
    assert batched("m k, k n -> m n", *dims) == expected


def test_a_batch_label_is_a_new_one():
    assert batched("v k, k vv -> v vv", 0, None, None)[0] == "vvv v k, k vv -> vvv v vv"


def test_a_bias_is_labelled_like_the_last_dimensions_of_the_output():
    assert label_bias("m k, k (n u:2) -> m (n u)", [False, False]) == "m k, k (n u:2), m (n u) -> m (n u)"
    assert label_bias("m k, k n -> m n", [True, False]) == "m k, k n, 1 n -> m n"
    assert label_bias("m k, k n -> m n", []) == "m k, k n,  -> m n"


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_every_written_text_means_what_it_was_written_from(problem):
    pattern = parse(problem.spec)
    again = write(pattern.a, pattern.b, pattern.out, pattern.bias, dict(pattern.stated))
    a, b, bias, _ = problem.tensors()
    bias = None if pattern.bias is None else bias
    shapes = [a.shape, b.shape, None if bias is None else bias.shape]
    values = [evaluate(parse(text).bind(*shapes), a, b, bias) for text in (problem.spec, again)]
    assert torch.equal(*values)


def test_sums_over_labels_and_repeats_are_each_others_transpose():
    sizes = {"m": 2, "n": 3, "u": 2}
    out, bias = (("m",), ("n", "u")), (("u",), ("n",))
    g, x = torch.randn(2, 6, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    spread = spread_to(x, bias, out, sizes)
    assert torch.equal(spread, x.t().reshape(1, 6).expand(2, 6))
    torch.testing.assert_close((g * spread).sum(), (summed_to(g, out, bias, sizes) * x).sum())


def test_derived_specs_are_made_once():
    assert pattern_of("q k, k n -> q n") is pattern_of("q k, k n -> q n")
    assert resolve("q k, k n -> q n", (2, 3), (3, 4), None) is resolve("q k, k n -> q n", (2, 3), (3, 4), None)


def test_a_bias_that_does_not_broadcast_has_no_labels():
    with pytest.raises(SpecError, match=r"bias of shape \(2,\) does not broadcast to the output's shape \(3, 4\)"):
        resolve("m k, k n -> m n", (3, 2), (2, 4), (2,))
