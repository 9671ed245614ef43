"""K=1: a matmul that sums nothing becomes a broadcast multiply, right for every broadcast and dtype; K>1 never."""

import itertools

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import MATMULS, all_names, assert_as_eager, decisions, forward_names, jit

BATCHES = [(), (1,), (2,), (3, 1), (1, 2), (3, 2)]


def _broadcasts():
    for a, b in itertools.product(BATCHES, BATCHES):
        try:
            torch.broadcast_shapes(a, b)
        except RuntimeError:
            continue
        yield a, b


@pytest.mark.parametrize(("a", "b"), list(_broadcasts()))
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_every_broadcast_of_batch_dimensions(a, b, grad):
    x, y = torch.randn(*a, 4, 1, requires_grad=grad), torch.randn(*b, 1, 5, requires_grad=grad)
    jfn = assert_as_eager(torch.matmul, x, y)
    assert not set(forward_names(jfn)) & MATMULS
    assert decisions(jfn)[0] == "multiply"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1,), (1,)),
        ((4, 1), (1,)),
        ((1,), (1, 5)),
        ((2, 4, 1), (1,)),
        ((1,), (2, 1, 5)),
        ((1, 1), (1, 1)),
        ((2, 1, 1), (2, 1, 1)),
    ],
)
def test_one_dimensional_and_size_one_operands(a, b):
    jfn = assert_as_eager(torch.matmul, torch.randn(a), torch.randn(b))
    assert decisions(jfn) == ["multiply"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1,), (4, 1), (2, 4, 1)], ids=str)
def test_a_linear_with_k_1(shape, bias, dtype):
    x, w = torch.randn(shape, dtype=dtype), torch.randn(5, 1, dtype=dtype)
    b = torch.randn(5, dtype=dtype) if bias else None
    jfn = assert_as_eager(torch.nn.functional.linear, x, w, b)
    assert decisions(jfn) == ["multiply"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bit_products_round_once_bit_for_bit(dtype):
    a, b = torch.randn(64, 1, dtype=dtype), torch.randn(1, 33, dtype=dtype)
    assert torch.equal(jit(torch.matmul)(a, b), (a.double() * b.double()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_sixteen_bit_linear_with_bias_rounds_once(dtype):
    x, w, b = torch.randn(64, 1, dtype=dtype), torch.randn(33, 1, dtype=dtype), torch.randn(33, dtype=dtype)
    exact = x.double() * w.double().t() + b.double()
    out = jit(torch.nn.functional.linear)(x, w, b)
    # The sum in float32 may itself round before the last rounding: at most one unit of float32 beside it.
    assert (out.double() - exact).abs().max() <= (exact.to(dtype).double() - exact).abs().max() * (1 + 1e-3)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(4, 1) @ x.reshape(1, 4),
        lambda x: x[:, None] @ x[None, :],
        lambda x: x.unsqueeze(1) @ x.unsqueeze(0),
        lambda x: x.view(2, 2, 1) @ x.view(2, 1, 2),
    ],
)
def test_k_1_by_a_reshape(view):
    jfn = assert_as_eager(view, torch.randn(4))
    assert decisions(jfn) == ["multiply"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_product_leaves_with_eagers_strides_whatever_the_operands_strides(order):
    """A multiply takes the dimension order of permuted operands, a matmul does not: outputs must stay contiguous."""
    shape = (2, 3, 1)
    a = torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(3)])
    for b in (torch.randn(2, 1, 5), torch.randn(1, 5, 2).permute(2, 0, 1), torch.randn(5, 2, 1).permute(1, 2, 0)):
        assert decisions(assert_as_eager(torch.matmul, a, b)) == ["multiply"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("b_sizes", [(1, 1, 1, 2), (1, 2, 1, 1), (2, 1, 1, 1)])
def test_the_strides_of_dimensions_of_size_1_decide_nothing(order, b_sizes):
    """Slices of permuted inputs: a dimension of size 1 has a stride that says something else than its place."""

    def f(x, y):
        return x[:1, :1, :, :1] @ y[tuple(map(slice, b_sizes))]

    a, b = (torch.randn([3] * 4).permute(order) for _ in range(2))
    assert decisions(assert_as_eager(f, a, b)) == ["multiply"]


def test_a_transposed_product_under_a_cat_is_multiplied_in_that_order():
    def f(inv, pos):
        freqs = (inv @ pos).transpose(1, 2)
        return torch.cat((freqs, freqs), dim=-1).cos()

    jfn = assert_as_eager(f, torch.randn(1, 8, 1), torch.randn(1, 1, 16))
    assert not {"transpose", "permute"} & set(forward_names(jfn))


def test_complex_products():
    a, b = torch.randn(4, 1, dtype=torch.complex64), torch.randn(1, 5, dtype=torch.complex64)
    torch.testing.assert_close(jit(torch.matmul)(a.conj(), b), a.conj() @ b)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda c, x, w: torch.addmm(c.repeat_interleave(2, dim=0), x.expand(8, 1)[1:-1], w), [(3, 1), (1, 1), (1, 1)]),
        (lambda c, x, w: torch.baddbmm(c.repeat_interleave(2, dim=2), x, w), [(2, 3, 2), (2, 3, 1), (2, 1, 4)]),
    ],
    ids=["rows", "columns"],
)
def test_a_bias_that_has_part_of_a_dimension_alone(f, shapes):
    """Repeated, it lacks the inner label of a dimension that a, or b, has as one."""
    jfn = assert_as_eager(f, *(torch.randn(s) for s in shapes))
    assert decisions(jfn) == ["multiply"]


# Does not -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 8])
def test_k_greater_than_one_stays_a_matmul(k):
    jfn = assert_as_eager(torch.matmul, torch.randn(4, k), torch.randn(k, 5))
    assert decisions(jfn) == ["given back"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_integers_stay_a_matmul(dtype):
    a, b = torch.randint(9, (4, 1)).to(dtype), torch.randint(9, (1, 5)).to(dtype)
    jfn = jit(torch.matmul)
    assert torch.equal(jfn(a, b), a @ b)
    assert decisions(jfn) == ["given back"]


def test_off_keeps_the_matmul():
    jfn = assert_as_eager(torch.matmul, torch.randn(4, 1), torch.randn(1, 5), gemm_small="off")
    assert decisions(jfn) == ["given back"]


def test_a_program_compiled_for_k_1_never_answers_for_k_5():
    jfn = thunder.jit(torch.matmul, executors=gx.executors(), cache="symbolic values")
    for k in (1, 5, 1, 3):
        a, b = torch.randn(4, k), torch.randn(k, 6)
        torch.testing.assert_close(jfn(a, b), a @ b)
    (row,) = gx.explain(jfn).rows
    assert row.decision == "declined"
    assert "symbolic" in row.reason


def test_constant_values_compile_anew_for_another_k():
    jfn = jit(torch.matmul)
    for k in (1, 5, 1):
        a, b = torch.randn(4, k), torch.randn(k, 6)
        torch.testing.assert_close(jfn(a, b), a @ b)
    assert thunder.cache_misses(jfn) == 2


def test_the_gradients_of_a_k_1_matmul_are_eagers():
    jfn = assert_as_eager(
        torch.matmul, torch.randn(2, 4, 1, requires_grad=True), torch.randn(2, 1, 5, requires_grad=True)
    )
    assert "matmul" not in forward_names(jfn)
    assert "gemm" in all_names(jfn) or "matmul" in all_names(jfn)
