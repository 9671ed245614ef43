"""Eager products of two matrices that sum nothing: a multiply where that is the same, BLAS everywhere else."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import thunder_gemm_ex as gx
from thunder_gemm_ex.spec import SpecError

SPECS = [f"{a}, {b} -> {out}" for a, b, out in itertools.product(("m k", "k m"), ("n k", "k n"), ("m n", "n m"))]


class Calls(TorchDispatchMode):
    """The names of the ATen operations that compute."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    @property
    def computing(self):
        return [name for name in self.names if name in ("mul", "mm", "bmm", "addmm", "linear")]


def gemm(*args, **kwargs):
    """(result, what computed it), at a later call of the spec than its first."""
    gx.gemm(*args, **kwargs)
    with Calls() as calls:
        out = gx.gemm(*args, **kwargs)
    return out, calls.computing


def operands(spec, k=1, **options):
    sizes = {"m": 5, "n": 7, "k": k}
    a, b = (term.split() for term in spec.partition(" ->")[0].split(", "))
    return [torch.randn([sizes[label] for label in labels], **options) for labels in (a, b)]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_product_of_k_1_is_a_multiply(spec, dtype):
    a, b = operands(spec, dtype=dtype)
    out, computing = gemm(a, b, spec)
    want = torch.einsum(spec.replace(" ", ""), a, b)
    assert computing == ["mul"]
    assert out.is_contiguous()
    assert torch.equal(out, want)


@pytest.mark.parametrize("spec", SPECS)
def test_a_product_of_k_2_is_not(spec):
    _, computing = gemm(*operands(spec, k=2), spec)
    assert computing == ["mm"]


@pytest.mark.parametrize("spec", SPECS)
def test_permuted_operands_do_not_decide_the_order(spec):
    a, b = (x.t().clone(memory_format=torch.contiguous_format).t() for x in operands(spec))
    assert gemm(a, b, spec)[0].is_contiguous()


@pytest.mark.parametrize("spec", ["b m k, b k n -> b m n", "m b k, n k -> m b n"])
def test_more_dimensions_stay_a_product(spec):
    sizes = {"b": 2, "m": 5, "n": 7, "k": 1}
    a, b = (torch.randn([sizes[x] for x in term.split()]) for term in spec.partition(" ->")[0].split(", "))
    assert "mul" not in gemm(a, b, spec)[1]


@pytest.mark.parametrize(
    ("spec", "a", "b", "computed"),
    [
        ("1 1, 1 1 -> 1 1", (1, 1), (1, 1), []),
        ("1 1, n 1 -> 1 n", (1, 1), (3, 1), []),
        ("m 1, 1 1 -> m 1", (3, 1), (1, 1), []),
        ("m 1, 1 n -> m n", (3, 1), (1, 4), ["mul"]),
        ("1 k, k n -> 1 n", (1, 1), (1, 4), ["mul"]),
        ("m k, k 1 -> 1 m", (3, 1), (1, 1), ["mul"]),
    ],
)
def test_sizes_of_one_in_the_spec(spec, a, b, computed):
    a, b = torch.randn(a), torch.randn(b)
    out, computing = gemm(a, b, spec)
    assert computed == [name for name in computing if name == "mul"]
    assert out.is_contiguous()
    torch.testing.assert_close(out.flatten(), (a.flatten()[:, None] * b.flatten()).flatten())


def test_a_k_that_only_one_operand_has_is_refused():
    a, b = torch.randn(5, 1), torch.randn(3, 7)
    gx.gemm(a, torch.randn(1, 7), "m k, k n -> m n")
    with pytest.raises(SpecError, match="k"):
        gx.gemm(a, b, "m k, k n -> m n")


def test_dtypes_that_a_multiply_would_promote_are_refused():
    with pytest.raises(ValueError, match="must be as a"):
        gx.gemm(torch.randn(5, 1), torch.randn(1, 7, dtype=torch.float64), "m k, k n -> m n")


def test_integers_stay_a_product():
    a, b = torch.randint(9, (5, 1)), torch.randint(9, (1, 7))
    out, computing = gemm(a, b, "m k, k n -> m n")
    assert computing == ["mm"]
    assert torch.equal(out, a @ b)


def test_autocast_casts_as_it_casts_a_product():
    a, b = operands("m k, k n -> m n")
    with torch.autocast("cpu", torch.bfloat16):
        assert gx.gemm(a, b, "m k, k n -> m n").dtype == torch.bfloat16


def test_gradients_are_those_of_a_product():
    a, b = (x.requires_grad_() for x in operands("m k, k n -> m n"))
    out, computing = gemm(a, b, "m k, k n -> m n")
    assert computing == ["mm"]
    out.sum().backward()
    torch.testing.assert_close(a.grad, b.detach().sum(1, keepdim=True).t().expand(5, 1))
    with torch.no_grad():
        assert gemm(a, b, "m k, k n -> m n")[1] == ["mul"]
