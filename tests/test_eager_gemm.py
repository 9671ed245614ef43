"""gx.gemm: values, terms, gradients; and every bad input refused in one sentence with nothing computed."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import thunder_gemm_ex as gx
from tests.checks import assert_close_to_float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("spec", "a", "b", "eager"),
    [
        ("m k, k n -> m n", (5, 7), (7, 3), lambda a, b: a @ b),
        ("a b k, n k -> a b n", (2, 5, 7), (3, 7), lambda a, b: a @ b.t()),
        (
            "b m h k, b n h k -> b h m n",
            (2, 5, 3, 7),
            (2, 4, 3, 7),
            lambda a, b: a.transpose(1, 2) @ b.permute(0, 2, 3, 1),
        ),
        ("m 1, 1 n -> m n", (5, 1), (1, 3), lambda a, b: a @ b),
        ("m k, k n -> n m", (5, 7), (7, 3), lambda a, b: (a @ b).t().contiguous()),
        ("k, k -> ", (7,), (7,), lambda a, b: a @ b),
    ],
)
def test_values(spec, a, b, eager, dtype):
    x, y = torch.randn(a, dtype=torch.float64).to(dtype), torch.randn(b, dtype=torch.float64).to(dtype)
    out = gx.gemm(x, y, spec)
    assert out.is_contiguous()
    assert_close_to_float64(out, eager(x, y), eager(x.double(), y.double()))


def test_the_default_spec_is_a_matrix_product():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    torch.testing.assert_close(gx.gemm(a, b), a @ b)


@pytest.mark.parametrize("alpha", [1, 0.5, 0])
@pytest.mark.parametrize("beta", [0, 2])
@pytest.mark.parametrize("bias", [None, (3,), (1,), (5, 3), (5, 1)], ids=str)
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_terms(alpha, beta, bias, activation):
    a, b, c = torch.randn(2, 5, 7), torch.randn(3, 7), torch.randn(2, 5, 3)
    bias = None if bias is None else torch.randn(bias)
    out = gx.gemm(a, b, "b m k, n k -> b m n", alpha=alpha, beta=beta, c=c, bias=bias, activation=activation)
    expected = alpha * (a @ b.t()) + beta * c + (0 if bias is None else bias)
    if activation:
        expected = {"relu": torch.relu, "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh")}[activation](
            expected
        )
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_a_bias_labelled_by_the_spec():
    a, b, bias = torch.randn(2, 4, 7), torch.randn(6, 7), torch.randn(6)
    out = gx.gemm(a, b, "m p k, (n u:3) k, (n u) -> m n p u", bias=bias)
    expected = torch.nn.functional.linear(a, b, bias).reshape(2, 4, 2, 3).transpose(1, 2)
    torch.testing.assert_close(out, expected)


def test_beta_zero_ignores_nan_in_c():
    out = gx.gemm(torch.ones(2, 3), torch.ones(3, 2), c=torch.full((2, 2), torch.nan), beta=0)
    assert torch.equal(out, torch.full((2, 2), 3.0))


@pytest.mark.parametrize("k", [0, 1])
def test_no_and_one_summed_value(k):
    out = gx.gemm(torch.ones(2, k), torch.ones(k, 3))
    assert torch.equal(out, torch.full((2, 3), float(k)))


def test_gradients_are_eagers():
    a, b, bias = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in [(2, 5, 7), (3, 7), (3,)])

    def ours(a, b, bias):
        return gx.gemm(a, b, "b m k, n k -> n b m", alpha=0.5) + gx.gemm(
            a, b, "b m k, n k -> b m n", bias=bias
        ).permute(2, 0, 1)

    assert torch.autograd.gradcheck(ours, (a, b, bias))


A, B = torch.ones(2, 3), torch.ones(3, 4)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"a": [[1.0]]}, TypeError, "a must be a torch.Tensor, was list"),
        ({"b": None}, TypeError, "b must be a torch.Tensor, was NoneType"),
        (
            {"b": torch.ones(3, 4).double()},
            ValueError,
            "b is torch.float64 on cpu and must be as a: torch.float32 on cpu",
        ),
        ({"b": torch.ones(3, 4, device="meta")}, ValueError, "b is torch.float32 on meta and must be as a"),
        ({"a": torch.ones(2, 3, device="meta")}, ValueError, "b is torch.float32 on cpu and must be as a"),
        ({"bias": torch.ones(4).half()}, ValueError, "bias is torch.float16 on cpu"),
        ({"bias": torch.ones(5)}, ValueError, "bias of shape (5,) does not broadcast to the output's shape (2, 4)"),
        ({"bias": torch.ones(3, 2, 4)}, ValueError, "bias of shape (3, 2, 4) does not broadcast"),
        ({"c": torch.ones(3, 3), "beta": 1}, ValueError, "c of shape (3, 3) does not broadcast"),
        ({"c": 3, "beta": 1}, TypeError, "c must be a torch.Tensor, was int"),
        ({"beta": 1}, ValueError, "beta is 1 but c is None"),
        ({"alpha": "2"}, TypeError, "alpha must be a number, was str"),
        ({"beta": None}, TypeError, "beta must be a number, was NoneType"),
        ({"activation": "silu"}, ValueError, 'activation must be None, "relu" or "gelu", was \'silu\''),
        ({"b": torch.ones(5, 4)}, ValueError, "dimension 'k' of b"),
        ({"a": torch.ones(2, 2, 3)}, ValueError, "a has shape (2, 2, 3)"),
        ({"spec": "m k, k n"}, ValueError, "must read"),
        ({"spec": 3}, ValueError, "spec must be a string"),
        ({"spec": "m k, k n, n -> m n"}, ValueError, "labels a bias, but bias is None"),
        ({"a": torch.ones(2, 3).to_sparse()}, TypeError, "torch.sparse_coo"),
        ({"a": torch.nested.nested_tensor([torch.ones(2, 3)])}, TypeError, "nested"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(kwargs, error, message):
    args = {"a": A, "b": B} | kwargs
    with pytest.raises(error) as caught:
        gx.gemm(args.pop("a"), args.pop("b"), **args)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_conjugate_views_are_contracted_as_eager_does():
    a, b = (torch.randn(s, dtype=torch.complex128) for s in [(2, 3), (4, 3)])
    torch.testing.assert_close(gx.gemm(a.conj(), b.conj(), "m k, n k -> m n"), a.conj() @ b.mH)
    torch.testing.assert_close(gx.gemm(a, b.mH, "m k, k n -> n m"), (a @ b.mH).t())


def test_negative_views_are_contracted_as_eager_does():
    imag = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    assert imag.is_neg()
    torch.testing.assert_close(gx.gemm(torch.ones(2, 3), imag), torch.ones(2, 3) @ imag)
    torch.testing.assert_close(gx.gemm(imag, imag, "m (k u:2), n (k u) -> n m"), imag @ imag.t())


@pytest.mark.parametrize("spec", ["m k, k n -> m n", "m k, k n -> n m", "m k, k (n u:2) -> u m n"])
def test_tensors_without_data_give_the_shape(spec):
    expected = gx.gemm(A, B, spec)
    on_meta = gx.gemm(A.to("meta"), B.to("meta"), spec)
    assert (on_meta.device.type, on_meta.shape, on_meta.stride()) == ("meta", expected.shape, expected.stride())
    with FakeTensorMode() as mode:
        fake = gx.gemm(mode.from_tensor(A), mode.from_tensor(B), spec)
    assert (fake.device.type, fake.shape, fake.stride()) == ("cpu", expected.shape, expected.stride())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensors_without_data_are_checked_as_others_are(device):
    with pytest.raises(ValueError, match="dimension 'k' of b"):
        gx.gemm(A.to(device), torch.ones(5, 4, device=device), "m k, k n -> n m")
