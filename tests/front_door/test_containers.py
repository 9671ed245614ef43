"""Tensors that a list, tuple or dict of a program still holds when a matmul is called with it."""

import itertools

import pytest
import torch

from tests.checks import decisions, jit


def operands():
    return [torch.randn(s, requires_grad=True) for s in [(3, 4), (4, 5), (5, 6)]]


CALLS = {
    "multi_dot": lambda tensors: torch.linalg.multi_dot(tensors),
    "multi_dot by name": lambda tensors: torch.linalg.multi_dot(tensors=tensors),
    "einsum": lambda tensors: torch.einsum("ij,jk,kl->il", tensors),
    "chain_matmul": lambda tensors: torch.chain_matmul(*tensors),
}


@pytest.mark.parametrize("container", [list, tuple], ids=lambda c: c.__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_argument_that_holds_the_operands(call, container):
    jfn = jit(call, gemm_claim="all")
    # Twice: the second call's tensors are its own.
    for _ in range(2):
        args = operands()
        ours, eager = jfn(container(args)), call(container(args))
        torch.testing.assert_close(ours, eager)
        for x, y in zip(torch.autograd.grad(ours.sum(), args), torch.autograd.grad(eager.sum(), args)):
            torch.testing.assert_close(x, y)
    assert set(decisions(jfn)) == {"claimed"}


def test_the_operands_are_guarded_as_any_input():
    jfn = jit(CALLS["multi_dot"])
    for sizes in [(3, 4, 5), (6, 2, 7)]:
        args = [torch.randn(m, n) for m, n in itertools.pairwise(sizes)]
        torch.testing.assert_close(jfn(args), torch.linalg.multi_dot(args))


# Does not -------------------------------------------------------------------------------------------------------------


def test_numbers_in_a_container_stay_numbers():
    jfn, args = jit(lambda a, b, dims: torch.tensordot(a, b, dims=dims)), operands()
    torch.testing.assert_close(jfn(*args[:2], ([1], [0])), args[0] @ args[1])
