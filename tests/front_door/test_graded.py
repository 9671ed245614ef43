"""What is recorded otherwise under a gradient: asked of every value, not of the program's inputs alone."""

import itertools

import pytest
import torch

from tests.checks import all_names, assert_as_eager, jit


def stored(shape, order, dtype):
    """Random values of the shape whose memory has the dimensions in this order; a leaf."""
    x = torch.randn([shape[dim] for dim in order], dtype=dtype)
    return x.permute([order.index(dim) for dim in range(len(order))]).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 3, 0, 2), (3, 2, 1, 0)], ids=str)
def test_an_expanded_factor_does_not_decide_the_strides_of_a_product(order, c, dtype):
    for order_a in itertools.permutations(range(3)):
        a, b = stored((2, c, 4), order_a, dtype), stored((6, 2, 4, 6), order, dtype)
        assert_as_eager(lambda a, b: torch.einsum("ack,dakb->adbk", a * 1, b), a, b, leaf_strides=False)


def test_nor_where_another_input_alone_has_a_gradient():
    a, b = torch.randn(1, 3, dtype=torch.bfloat16), stored((1, 3, 2), (0, 2, 1), torch.bfloat16).detach()
    w = torch.randn(2, 3, dtype=torch.bfloat16, requires_grad=True)

    def f(a, b, w):
        product = torch.einsum("ab,abd->abd", a, b)
        return product, torch.matmul(product, w)

    for ours, eager in zip(jit(f)(a, b, w), f(a, b, w)):
        assert torch.equal(ours, eager)
        assert ours.stride() == eager.stride()


def test_without_gradients_it_is_one_multiply():
    a, b = torch.randn(1, 3, dtype=torch.bfloat16), torch.randn(1, 3, 2, dtype=torch.bfloat16)
    with torch.no_grad():
        jfn = assert_as_eager(lambda a, b: torch.einsum("ab,abd->abd", a, b), a, b)
    assert "to" not in all_names(jfn)


SHAPES = {
    torch.addmm: ((3, 5), (3, 4), (4, 5)),
    torch.addmv: ((3,), (3, 4), (4,)),
    torch.baddbmm: ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    torch.addbmm: ((3, 5), (2, 3, 4), (2, 4, 5)),
}


@pytest.mark.parametrize("fn", SHAPES, ids=lambda fn: fn.__name__)
def test_a_term_of_factor_0_has_a_gradient_of_zeros_behind_other_operations(fn):
    tensors = [torch.randn(shape, requires_grad=True) for shape in SHAPES[fn]]
    assert_as_eager(lambda x, a, b: fn(x * 2, a, b, beta=0), *tensors)
    assert_as_eager(lambda x, a, b: fn(x.exp().neg(), a.cos(), b, beta=0, alpha=2), *tensors)


@pytest.mark.parametrize("fn", SHAPES, ids=lambda fn: fn.__name__)
def test_a_term_of_factor_0_without_a_gradient_is_not_computed(fn):
    x, a, b = (torch.randn(shape) for shape in SHAPES[fn])
    a.requires_grad_()
    jfn = assert_as_eager(lambda x, a, b: fn(x * 2, a * 2, b, beta=0), x, a, b)
    assert "where" not in all_names(jfn)


def test_nothing_is_graded_without_gradients():
    x, a, b = (torch.randn(shape, requires_grad=True) for shape in SHAPES[torch.addmm])
    with torch.no_grad():
        jfn = assert_as_eager(lambda x, a, b: torch.addmm(x * 2, a, b, beta=0), x, a, b)
    assert "where" not in all_names(jfn)
