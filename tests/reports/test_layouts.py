"""Reports about layouts, strides and flags: conjugate and expanded operands, strides of results and gradients."""

import itertools

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, decisions, jit

linear = torch.nn.functional.linear


def as_eager(fn, *inputs, **options):
    """`assert_as_eager` with every matmul claimed, so that an engine computes it."""
    return assert_as_eager(fn, *inputs, gemm_claim="all", **options)


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


# 1, 4: conjugate views ------------------------------------------------------------------------------------------------

CONJUGATES = {
    "neither": lambda x: x,
    "conj": torch.conj,
    "mH": lambda x: x.mH,
    "conj of a transpose": lambda x: x.mT.conj(),
    "twice": lambda x: x.conj().conj(),
    "negative": torch._neg_view,
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("inside", [False, True], ids=["of the inputs", "in the program"])
def test_pytorch_64103_a_conjugate_view_of_k_1(engine, dtype, inside):
    a, b = torch.ones(1, 2, 1, dtype=dtype), torch.ones(1, 3, 1, dtype=dtype)

    def f(a, b):
        return torch.bmm(a, b.transpose(1, 2).conj())

    out = jit(f)(a, b) if inside else jit(torch.bmm)(a, b.transpose(1, 2).conj())
    assert torch.equal(torch.view_as_real(out.resolve_conj()), torch.view_as_real(torch.ones(1, 2, 3, dtype=dtype)))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("left", "right"), list(itertools.product(CONJUGATES, repeat=2)))
def test_pytorch_64103_every_pair_of_conjugate_and_negative_inputs(engine, left, right, k):
    a, b = (
        CONJUGATES[left](randn(2, k, k, dtype=torch.complex64)),
        CONJUGATES[right](randn(2, k, k, dtype=torch.complex64)),
    )
    for fn in (torch.matmul, lambda a, b: a @ b.mT, lambda a, b: (a.mT @ b).mT):
        ours, eager = jit(fn, gemm_claim="all")(a, b), fn(a, b)
        torch.testing.assert_close(ours.resolve_conj().resolve_neg(), eager.resolve_conj().resolve_neg())


def test_matx_1250_conjugate_and_transpose_mixed(engine):
    a = randn(3, 3, dtype=torch.complex64)
    for fn in (
        lambda a: a.conj() @ a.t(),
        lambda a: a.t() @ a.conj(),
        lambda a: a.mH @ a.mT,
        lambda a: a.conj() @ a.mH,
    ):
        torch.testing.assert_close(jit(fn, gemm_claim="all")(a).resolve_conj(), fn(a).resolve_conj())


# 2, 3, 8: expanded operands -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda x, v: x @ v, [(2, 2), (2,)]),
        (lambda x, v: x @ v, [(3, 2, 2), (2,)]),
        (lambda x, v: v @ x, [(2, 2), (2,)]),
        (torch.matmul, [(2, 3), (3, 4)]),
        (torch.matmul, [(5, 2, 3), (3, 4)]),
        (torch.matmul, [(5, 2, 3), (5, 3, 4)]),
        (lambda x, w: x @ w.t(), [(2, 3), (4, 3)]),
        (linear, [(5, 2, 3), (4, 3), (4,)]),
        (torch.dot, [(3,), (3,)]),
    ],
)
def test_pytorch_29984_an_incoming_gradient_of_stride_0(engine, fn, shapes):
    inputs = [randn(*s, grad=True) for s in shapes]
    out = jit(fn, gemm_claim="all")(*inputs)
    ours = torch.autograd.grad(out.sum(), inputs)
    eager = torch.autograd.grad(fn(*inputs).sum(), inputs)
    for x, y in zip(ours, eager):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("side", ["a", "b", "both"])
@pytest.mark.parametrize("dim", [0, 1])
def test_pytorch_1517_a_matrix_whose_leading_dimension_is_0(engine, side, dim):
    row = torch.ones(1, 1).expand(1, 64)
    assert row.stride() == (1, 0)
    torch.testing.assert_close(jit(torch.matmul, gemm_claim="all")(row, torch.ones(64, 5)), torch.full((1, 5), 64.0))
    a, b = (randn(*((1, 8) if dim == 0 else (8, 1))).expand(8, 8) if side in (s, "both") else randn(8, 8) for s in "ab")
    for fn in (torch.matmul, lambda a, b: a @ b.t(), lambda a, b: (a @ b).t() @ b):
        as_eager(fn, a, b)


@pytest.mark.parametrize("inside", [False, True], ids=["of the inputs", "in the program"])
@pytest.mark.parametrize("shape", [(2048, 1), (1, 320), (1, 1)], ids=str)
def test_fuser_5244_k_expanded_in_one_operand_alone(engine, shape, inside):
    a, b = randn(*shape), randn(320, 64)
    if inside:
        as_eager(lambda a, b: a.expand(2048, 320) @ b, a, b)
    else:
        ours, eager = jit(torch.matmul, gemm_claim="all")(a.expand(2048, 320), b), a.expand(2048, 320) @ b
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


# 5, 6: strides of what leaves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["contiguous", "transposed"])
@pytest.mark.parametrize(
    "fn",
    [
        linear,
        lambda x, w: x @ w.t(),
        lambda x, w: (w @ x.mT).mT,
        lambda x, w: torch.einsum("abk,nk->abn", x, w),
        lambda x, w: x.transpose(0, 1) @ w.mT,
    ],
    ids=["linear", "matmul", "transposed", "einsum", "batch first"],
)
def test_pytorch_47163_a_parameters_gradient_has_its_strides(engine, fn, order):
    w = torch.nn.Parameter(randn(5, 4) if order == (0, 1) else randn(4, 5).t())
    jit(fn, gemm_claim="all")(randn(2, 3, 4), w).sum().backward()
    assert w.grad.stride() == w.stride()


K_1 = [
    ((1, 1), (1, 4)),
    ((2, 1), (1, 4)),
    ((2, 1), (1, 1)),
    ((1, 1), (1, 1)),
    ((3, 1, 1), (3, 1, 4)),
    ((1, 2, 1), (1, 1, 4)),
]


@pytest.mark.parametrize("small", ["k1", "off"])
@pytest.mark.parametrize("shapes", K_1, ids=str)
@pytest.mark.parametrize(("ta", "tb"), list(itertools.product([False, True], repeat=2)))
def test_pytorch_175549_a_product_of_k_1_is_contiguous(engine, shapes, ta, tb, small):
    """Eager's strides to the last digit: those of dimensions of size 1 too."""
    a, b = (randn(*s).mT.contiguous().mT if t else randn(*s) for s, t in zip(shapes, (ta, tb)))
    for fn in (torch.matmul, torch.mm if a.ndim == 2 else torch.bmm):
        ours, eager = jit(fn, gemm_small=small)(a, b), fn(a, b)
        assert torch.equal(ours, eager)
        assert ours.stride() == eager.stride()


# 7, 9: transposes that are and are not --------------------------------------------------------------------------------


def test_bitblas_33_transposed_twice_is_not_transposed(engine):
    x, w = randn(3, 4), randn(4, 5)
    for fn in (lambda x, w: x @ w.t().t(), lambda x, w: linear(x, w.t()), lambda x, w: (w.t() @ x.t()).t()):
        as_eager(fn, x, w)
    torch.testing.assert_close(gx.gemm(x, w.t(), "m k, n k -> m n"), x @ w)
    torch.testing.assert_close(gx.gemm(x, w.t().contiguous(), "m k, n k -> m n"), x @ w)


SMALL = [(3, 1, 4), (3, 2, 4), (1, 3, 4), (3, 3, 1), (1, 1, 1)]


@pytest.mark.parametrize("small", ["k1", "off"])
@pytest.mark.parametrize("sizes", SMALL, ids=str)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["matrix", "batch"])
def test_pytorch_189149_every_decomposition_of_transposed_operands(sizes, batch, small):
    m, k, n = sizes
    for ta, tb in itertools.product([False, True], repeat=2):
        a = randn(*batch, *((k, m) if ta else (m, k)))
        b = randn(*batch, *((n, k) if tb else (k, n)))
        stored = [a.mT if ta else a, b.mT if tb else b]
        # As views in the program, and as strides of the inputs.
        as_eager(lambda a, b, ta=ta, tb=tb: (a.mT if ta else a) @ (b.mT if tb else b), a, b, gemm_small=small)
        as_eager(torch.matmul, *stored, gemm_small=small)
        as_eager(lambda a, b: (a @ b).mT, *stored, gemm_small=small)


def test_pytorch_189149_k_1_is_decomposed_at_all():
    assert decisions(as_eager(torch.matmul, randn(3, 1), randn(1, 4))) == ["multiply"]
