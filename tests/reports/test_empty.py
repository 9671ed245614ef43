"""Reports about sizes of 0 and 1, terms that are ignored, and programs compiled for one size and called with another."""

import math

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import jit, leaves

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
linear = torch.nn.functional.linear
nan, inf = math.nan, math.inf


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


def same(fn, *inputs, **options):
    """Values bit for bit where there are few, NaN where eager has NaN; gradients alike; shape, dtype and strides too."""
    results = []
    for call in (jit(fn, gemm_claim="all", **options), fn):
        args = leaves(inputs)
        out = call(*args)
        wanted = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        grads = torch.autograd.grad(out, wanted, torch.ones_like(out)) if wanted else ()
        results.append((out, *grads))
    for i, (ours, eager) in enumerate(zip(*results)):
        assert (ours.shape, ours.dtype) == (eager.shape, eager.dtype)
        assert ours.numel() == 0 or ours.stride() == eager.stride() or (i and ours.is_contiguous())
        torch.testing.assert_close(ours, eager, equal_nan=True)


# 20, 21: nothing to sum, nothing to compute ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.complex64], ids=str)
def test_pytorch_31421_a_product_over_nothing_is_zeros(engine, dtype):
    a, b = torch.ones(3, 2, 0, dtype=dtype), torch.ones(3, 0, 3, dtype=dtype)
    assert torch.equal(jit(torch.bmm)(a, b), torch.zeros(3, 2, 3, dtype=dtype))
    assert torch.equal(gx.gemm(a, b, "b m k, b k n -> b m n"), torch.zeros(3, 2, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pytorch_31421_with_an_output_that_held_something(engine, dtype):
    out = torch.full((2, 3), nan, dtype=dtype)
    gx.gemm(torch.ones(2, 0, dtype=dtype), torch.ones(0, 3, dtype=dtype), out=out)
    assert torch.equal(out, torch.zeros(2, 3, dtype=dtype))


def test_pytorch_33467_a_term_is_kept_where_nothing_is_summed(engine):
    terms = torch.ones(2, 1, 1), torch.empty(2, 1, 0), torch.empty(2, 0, 1)
    assert torch.equal(jit(torch.baddbmm)(*terms), torch.ones(2, 1, 1))
    assert torch.equal(jit(torch.baddbmm)(*terms), torch.baddbmm(*terms))


NONE_OF = [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)]
OPERATIONS = {
    "matmul": (torch.matmul, lambda m, k, n: [(m, k), (k, n)]),
    "mm": (torch.mm, lambda m, k, n: [(m, k), (k, n)]),
    "nt": (lambda a, b: a @ b.t(), lambda m, k, n: [(m, k), (n, k)]),
    "tn": (lambda a, b: a.t() @ b, lambda m, k, n: [(k, m), (k, n)]),
    "result": (lambda a, b: (a @ b).t(), lambda m, k, n: [(m, k), (k, n)]),
    "nd": (torch.matmul, lambda m, k, n: [(2, m, k), (k, n)]),
    "bmm": (torch.bmm, lambda m, k, n: [(2, m, k), (2, k, n)]),
    "no batch": (torch.bmm, lambda m, k, n: [(0, m, k), (0, k, n)]),
    "broadcast": (torch.matmul, lambda m, k, n: [(2, 1, m, k), (0, k, n)]),
    "mv": (torch.mv, lambda m, k, n: [(m, k), (k,)]),
    "dot": (torch.dot, lambda m, k, n: [(k,), (k,)]),
    "linear": (linear, lambda m, k, n: [(2, m, k), (n, k)]),
    "linear with bias": (linear, lambda m, k, n: [(m, k), (n, k), (n,)]),
    "addmm": (torch.addmm, lambda m, k, n: [(m, n), (m, k), (k, n)]),
    "addmm with a row": (torch.addmm, lambda m, k, n: [(n,), (m, k), (k, n)]),
    "scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), lambda m, k, n: [(m, n), (m, k), (k, n)]),
    "baddbmm": (torch.baddbmm, lambda m, k, n: [(2, m, n), (2, m, k), (2, k, n)]),
    "addmv": (torch.addmv, lambda m, k, n: [(m,), (m, k), (k,)]),
    "einsum": (lambda a, b: torch.einsum("mk,nk->nm", a, b), lambda m, k, n: [(m, k), (n, k)]),
    "outer": (torch.outer, lambda m, k, n: [(m,), (n,)]),
}


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_thunder_0_2_6_sizes_of_0(name, grad):
    fn, shapes = OPERATIONS[name]
    for sizes in NONE_OF:
        same(fn, *(randn(*s, grad=grad) for s in shapes(*sizes)))


# 22: terms of 0 -------------------------------------------------------------------------------------------------------

WITH_TERMS = {
    "addmm": (torch.addmm, [(3, 5), (3, 4), (4, 5)]),
    "addmm with a row": (torch.addmm, [(5,), (3, 4), (4, 5)]),
    "baddbmm": (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
    "addmv": (torch.addmv, [(3,), (3, 4), (4,)]),
    "addbmm": (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)]),
    "over nothing": (torch.addmm, [(3, 5), (3, 0), (0, 5)]),
    "over one": (torch.addmm, [(3, 5), (3, 1), (1, 5)]),
    "baddbmm over nothing": (torch.baddbmm, [(2, 3, 5), (2, 3, 0), (2, 0, 5)]),
    "baddbmm over one": (torch.baddbmm, [(2, 3, 5), (2, 3, 1), (2, 1, 5)]),
}


FACTORS = [(0, 0), (0, 1), (1, 0), (0, 0.5), (0, nan), (nan, 0), (1, nan), (0.5, nan), (inf, 0), (nan, inf), (0, inf)]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("beta", "alpha"), FACTORS)
def test_pytorch_96086_what_is_scaled_by_0_is_ignored(beta, alpha, grad):
    """Gradients under an infinite alpha aside, where the order of a product and a factor makes NaN of infinity."""
    grad = grad and alpha != inf
    for fn, shapes in WITH_TERMS.values():
        inputs = [randn(*s, grad=grad) for s in shapes]
        for poisoned in (None, 0) if beta == 0 else (None,):
            args = leaves(inputs)
            if poisoned is not None:
                args[poisoned] = args[poisoned].detach().fill_(nan).requires_grad_(grad)
            same(lambda c, a, b, fn=fn: fn(c, a, b, beta=beta, alpha=alpha), *args)


def test_pytorch_196596_a_product_scaled_by_0_is_ignored_though_it_is_nan(engine):
    c, a, b = randn(3, 5), torch.full((3, 4), nan), randn(4, 5)
    same(lambda c, a, b: torch.addmm(c, a, b, alpha=0), c, a, b)


def test_pytorch_187521_an_input_that_nobody_wrote_is_never_read(engine):
    c = torch.full((2, 3, 5), nan)
    same(lambda c, a, b: torch.baddbmm(c, a, b, beta=0, alpha=0.25), c, randn(2, 3, 4), randn(2, 4, 5))


# 23, 24: Thunder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"), [((4, 1), (1,)), ((1,), (1, 4)), ((1,), (1,)), ((2, 4, 1), (1,)), ((1,), (2, 1, 4))]
)
def test_thunder_0_2_6_vectors_of_one_element(engine, a, b):
    for small in ("k1", "off"):
        same(torch.matmul, randn(*a, grad=True), randn(*b, grad=True), gemm_small=small)


def test_thunder_0_2_6_nan_under_beta_0_with_grad(engine):
    c = torch.full((2, 3, 5), nan, requires_grad=True)
    same(lambda c, a, b: torch.baddbmm(c, a, b, beta=0), c, randn(2, 3, 4, grad=True), randn(2, 4, 5, grad=True))


COMPLEX = {
    "matmul": torch.matmul,
    "nt": lambda a, b: a @ b.t(),
    "mH": lambda a, b: a.mH @ b,
    "conj": lambda a, b: a.conj() @ b.conj(),
    "both": lambda a, b: (a.mH @ b.mH).mH,
    "bmm": lambda a, b: torch.bmm(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0),
    "outer": lambda a, b: torch.outer(a.reshape(-1), b.reshape(-1)),
    "scaled": lambda a, b: torch.addmm(a, a * (1 + 2j), b * 2.0),
    "linear": linear,
    "einsum": lambda a, b: torch.einsum("mk,nk->nm", a, b),
}


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("fn", COMPLEX.values(), ids=COMPLEX)
def test_thunder_0_2_6_gradients_of_complex_products_are_conjugated(engine, fn, k):
    inputs = [randn(*s, dtype=torch.float64) + 1j * randn(*s, dtype=torch.float64) for s in ((k, k), (k, k))]
    results = []
    for call in (jit(fn), fn):
        args = [x.clone().requires_grad_() for x in inputs]
        out = call(*args)
        results.append([out, *torch.autograd.grad(out, args, torch.full_like(out, 1 + 2j))])
    for ours, eager in zip(*results):
        torch.testing.assert_close(ours.resolve_conj(), eager.resolve_conj())


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("small", ["k1", "off"])
def test_thunder_1525_a_program_for_one_size_never_answers_for_another(engine, small, grad):
    program = thunder.jit(torch.matmul, executors=gx.executors(), cache="symbolic values", gemm_small=small)
    calls = [((2, 2), (2,)), ((2, 1), (1, 8)), ((4, 5), (5, 6)), ((4, 1), (1, 6)), ((1, 5), (5, 1)), ((2, 3), (3,))]
    for a, b in (*calls, *calls):
        inputs = [randn(*a, grad=grad), randn(*b, grad=grad)]
        out, eager = program(*inputs), torch.matmul(*inputs)
        torch.testing.assert_close(out, eager)
        if grad:
            for x, y in zip(torch.autograd.grad(out.sum(), inputs), torch.autograd.grad(eager.sum(), inputs)):
                torch.testing.assert_close(x, y)


def test_thunder_1525_shapes_that_do_not_multiply_are_refused_again():
    program = thunder.jit(torch.matmul, executors=gx.executors(), cache="symbolic values")
    program(randn(2, 2), randn(2))
    with pytest.raises(RuntimeError):
        program(randn(2, 1), randn(8))
