"""What is written to in place is folded into nothing that reads it later, under whatever name the write goes."""

import pytest
import torch

from tests.checks import assert_as_eager, jit

# A write to t [4, 4], which has other names: those of its views.
WRITES = {
    "itself": lambda t, c: t.add_(c),
    "mT": lambda t, c: t.mT.add_(c),
    "reshape": lambda t, c: t.reshape(16).mul_(c[0, 0]),
    "unsqueeze": lambda t, c: t.unsqueeze(0).copy_(c[None]),
    "view of a view": lambda t, c: t.t()[None].mul_(0.5),
}
# What a matmul after the write could take in: made of t before it.
MADE = {
    "factor": lambda t: t * 0.25,
    "quotient": lambda t: t / 8,
    "cast": lambda t: t.to(torch.float64).to(t.dtype),
    "copy": lambda t: t.t().contiguous(),
    "copying reshape": lambda t: t.t().reshape(2, 8).reshape(4, 4),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_what_was_made_before_a_write_does_not_see_it(write, made, grad):
    def f(a, b, c, d):
        t = torch.mm(a, b)
        before = MADE[made](t)
        WRITES[write](t, c)
        return before @ d

    inputs = [torch.randn(4, 4) for _ in range(3)]
    assert_as_eager(f, *inputs, torch.randn(4, 4, requires_grad=grad), gemm_claim="all")


@pytest.mark.parametrize("write", WRITES)
def test_an_operand_that_is_written_to_later_is_read_before(write):
    def f(a, b, c):
        t = a * 2
        product = t @ b
        WRITES[write](t, c)
        return product * 0.25, t @ b

    assert_as_eager(f, *(torch.randn(4, 4) for _ in range(3)), gemm_claim="all")


def swapped(a, b):
    return torch.einsum("ab,bc->ca", a, b)


def test_writing_to_an_output_that_is_a_view_before_the_backward_is_refused():
    """Stated in docs/limits.md: as of Thunder's own outputs that are views. Never a silently wrong gradient."""
    out = jit(swapped)(*(torch.randn(4, 4, requires_grad=True) for _ in range(2)))
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        out.mul_(2)


def test_writing_to_an_output_that_is_a_view_without_gradients_is_not_refused():
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    torch.testing.assert_close(jit(swapped)(a, b).mul_(2), 2 * swapped(a, b))


def test_writing_to_an_output_that_is_no_view_is_not_refused():
    a, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    out = jit(torch.matmul, gemm_claim="all")(a, b)
    out.mul_(2).sum().backward()
    torch.testing.assert_close(a.grad, 2 * torch.ones(4, 4) @ b.detach().t())


def test_writing_to_the_source_of_a_folded_copy_before_the_backward_is_refused():
    """Stated in docs/limits.md: it is saved in the copy's place. Never a silently wrong gradient."""

    def f(x, w):
        return x.t().contiguous() @ w

    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    out = jit(f, gemm_claim="all")(x, w)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
