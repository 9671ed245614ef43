"""Random programs around matmuls against eager in float64: values, gradients, dtypes, strides and shared storage."""

import os

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.checks import flat, jit, layout
from tests.random_programs.contractions import below, contraction
from tests.random_programs.source import Program, operand

# In all; each of the parts below takes its share. More in the environment for a long run.
EXAMPLES = int(os.environ.get("THUNDER_GEMM_EX_EXAMPLES", "2000"))
PARTS = 8


@st.composite
def programs(draw):
    """(source, inputs): one or two contractions, what is above and below them, and perhaps one of their results."""
    p = Program(draw, draw(st.booleans()))
    results = []
    for _ in range(draw(st.integers(1, 2))):
        name, _ = contraction(p)
        shape = shape_of(p, name)
        made, shape = below(p, name, shape)
        if draw(st.integers(0, 3)) == 0 and shape:
            made = p.line(f"torch.matmul({made}, {operand(p, (shape[-1], draw(st.sampled_from([1, 3]))))})")
        results += [made] if draw(st.integers(0, 3)) else [made, name]
    return p.source(results), p.inputs


def shape_of(p, name):
    """The shape of a result, from eager on the meta device."""
    scope = {"torch": torch}
    exec(p.source([name]), scope)
    with torch.no_grad():
        args = [torch.empty(x.shape, dtype=getattr(torch, x.dtype), device="meta") for x in p.inputs]
        return tuple(scope["program"](*args)[0].shape)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_equal_eager(part):
    # A test for each part, so that they run side by side; without shrinking, for which compiling is too slow.
    @settings(
        max_examples=max(EXAMPLES // PARTS, 1),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize="THUNDER_GEMM_EX_EXAMPLES" not in os.environ,
    )
    @given(programs(), st.integers(0, 2**16).map(lambda seed: seed * PARTS + part))
    def check(drawn, seed):
        source, inputs = drawn
        note(f"{source}# {inputs}, seed {seed}")
        equal_eager(source, inputs, seed)

    check()


def equal_eager(source, inputs, seed):
    """Compile and run the program, and compare all that a user can see of it with eager."""
    scope = {"torch": torch}
    exec(source, scope)
    fn = scope["program"]
    seen = []
    for call in (jit(fn), fn):
        generator = torch.Generator().manual_seed(seed)
        args = [x.make(generator) for x in inputs]
        outs = flat(call(*args))
        wanted = [x for x in args if x.requires_grad]
        seen.append((args, outs, gradients(outs, wanted)))
    (our_args, ours, our_grads), (args, eager, grads) = seen
    assert len(ours) == len(eager)
    for x, y in zip(ours, eager):
        close(x, y)
        assert layout(x) == layout(y), (x.stride(), y.stride())
        assert shared(x, our_args) == shared(y, args)
    for x, y in zip(our_grads, grads):
        assert (x is None) == (y is None)
        if x is not None:
            close(x, y)


def gradients(outs, wanted):
    """The gradients of every output, weighted by numbers that do not depend on its strides."""
    outs = [o for o in outs if o.requires_grad]
    if not outs or not wanted:
        return []
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
