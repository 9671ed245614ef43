"""Comparing all that a user can see of a program with eager: values, dtypes, shapes, strides, storage, gradients."""

import torch

from tests.checks import flat, layout


def equal_eager(ours, eager, inputs, seed):
    """Run two callables on equal inputs and compare everything that comes out, gradients included."""
    (our_args, our_outs), (args, outs) = ([*run(call, inputs, seed)] for call in (ours, eager))
    equal(our_outs, outs, our_args, args)
    equal_gradients(gradients(our_outs, our_args), gradients(outs, args))


def run(call, inputs, seed):
    """(arguments, outputs) of a call with inputs drawn from the seed."""
    args = made(inputs, seed)
    return args, flat(call(*args))


def made(inputs, seed):
    """The inputs as tensors drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    return [x.make(generator) for x in inputs]


def equal(ours, eager, our_args, args):
    """Outputs are equal, lie in memory alike, and are the same inputs' memory."""
    assert len(ours) == len(eager)
    for x, y in zip(ours, eager):
        close(x, y)
        assert layout(x) == layout(y), (x.stride(), y.stride())
        assert shared(x, our_args) == shared(y, args)


def equal_gradients(ours, eager):
    """Gradients are equal, and absent alike."""
    for x, y in zip(ours, eager, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            close(x, y)


def gradients(outs, args):
    """The gradient of every argument that wants one, outputs weighted by numbers that do not depend on their strides."""
    wanted = [x for x in args if x.requires_grad]
    outs = [o for o in outs if o.requires_grad]
    if not outs or not wanted:
        return [None] * len(wanted)
    weights = [torch.linspace(-1, 2, o.numel(), dtype=torch.float64).reshape(o.shape) for o in outs]
    return torch.autograd.grad(outs, wanted, weights, allow_unused=True)


def close(x, y):
    """Equal but for the order of a float64 sum, or of one in float32 where the input was that."""
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    scale = max(y.abs().max().item(), 1.0) if y.numel() else 1.0
    torch.testing.assert_close(x, y, rtol=0, atol=scale * (1e-12 if x.dtype == torch.float64 else 1e-5))


def shared(x, args):
    """Which inputs' memory an output is."""
    return [x.untyped_storage().data_ptr() == a.untyped_storage().data_ptr() for a in args]
