"""Activation checkpointing: what is computed again folds again, and no more is kept than without the executor."""

import math

import pytest
import thunder
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, forward_names, specs
from tests.lab import computations, fake, needs_nvfuser

ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


def again(fn):
    """`fn` with its intermediate results computed again in the backward."""
    return lambda *args: checkpoint(fn, *args, use_reentrant=False)


def block(activation):
    linear = torch.nn.functional.linear
    return lambda x, w, v: linear(activation(linear(x.transpose(0, 1), w)), v)


def leaves():
    return [torch.randn(shape, requires_grad=True) for shape in ((4, 3, 8), (16, 8), (8, 16))]


def kept(jfn):
    """The shapes of what the forward keeps for the backward."""
    return [tuple(p.shape) for p in thunder.last_traces(jfn)[-1].output[1][0]]


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_a_checkpointed_block(activation):
    jfn = assert_as_eager(again(block(activation)), *leaves())
    # The first product is there once more in the backward, its views folded as in the forward.
    assert specs(jfn).count("b a k, n k -> a b n") == 2
    assert "permute" not in forward_names(jfn)


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_a_checkpointed_block_keeps_its_inputs_alone(activation):
    jfn, plain = (assert_as_eager(fn, *leaves()) for fn in (again(block(activation)), block(activation)))
    assert sorted(kept(jfn)) == [(4, 3, 8), (8, 16), (16, 8)]
    assert (3, 4, 16) in kept(plain)


def test_no_more_is_kept_than_without_the_executor():
    """Thunder keeps what a matmul of its own reads as rows, though it is inside the block."""
    program = again(lambda x, w, v: torch.tanh(x.transpose(0, 1) @ w.t()) @ v.t())
    ours, without = assert_as_eager(program, *leaves()), thunder.jit(program)
    without(*leaves())
    assert sum(map(math.prod, kept(ours))) <= sum(map(math.prod, kept(without)))


def test_blocks_within_blocks():
    inner = again(block(torch.tanh))
    jfn = assert_as_eager(again(lambda x, w, v: inner(inner(x, w, v), w, v)), *leaves())
    assert "b a k, n k -> a b n" in specs(jfn)


def test_segments_of_a_sequence():
    layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(4)))
    layers = layers.double()

    def program(x):
        return checkpoint_sequential(layers, 2, x.transpose(0, 1), use_reentrant=False)

    x = torch.randn(4, 3, 8, dtype=torch.float64, requires_grad=True)
    jfn = assert_as_eager(program, x)
    assert "b a k, n k, n -> a b n" in specs(jfn)


def test_a_checkpoint_that_only_one_operand_enters():
    """What comes from outside of the block is no argument of it, but no intermediate result either."""
    jfn = assert_as_eager(lambda x, w, v: again(lambda x: block(torch.tanh)(x, w, v))(x), *leaves())
    assert sorted(kept(jfn)) == [(4, 3, 8), (8, 16), (16, 8)]


@needs_nvfuser
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_in_a_cuda_trace_no_aux_is_kept(activation):
    """The forward's call has the activation but writes nothing for the backward; GELU's is written when recomputed."""

    class Block(torch.nn.Module):
        def __init__(self, device):
            super().__init__()
            self.up = torch.nn.Linear(64, 128, device=device, dtype=torch.bfloat16)
            self.down = torch.nn.Linear(128, 64, device=device, dtype=torch.bfloat16)

        def forward(self, x):
            """[n, s, 64] -> [n, s, 64]"""
            return again(lambda x: self.down(ACTIVATIONS[activation](self.up(x))))(x)

    jm = thunder.jit(fake(Block), executors=gx.executors())
    x = fake(lambda device: torch.randn(4, 8, 64, device=device, dtype=torch.bfloat16, requires_grad=True))
    thunder.compile_data(jm).get_computation_and_inputs(x)
    forward = computations(thunder.last_traces(jm)[-1])
    backward = computations(thunder.last_backward_traces(jm)[-1])
    assert f'epilogue="{activation}")' in forward[0].text
    assert sorted(kept(jm)) == [(4, 8, 64), (64, 128), (128,), (128, 64)]
    assert sum('epilogue="gelu_aux"' in line.text for line in backward) == (activation == "gelu")
