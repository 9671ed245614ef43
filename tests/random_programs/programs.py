"""Drawing whole programs: one or two contractions, what is above and below them, and perhaps one of their results."""

import torch
from hypothesis import strategies as st

from tests.random_programs.contractions import below, contraction
from tests.random_programs.source import Program, operand


@st.composite
def programs(draw):
    """(source, inputs) of a program; `source` defines a function `program` of the inputs."""
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
    fn = defined(p.source([name]))
    with torch.no_grad():
        args = [torch.empty(x.shape, dtype=getattr(torch, x.dtype), device="meta") for x in p.inputs]
        return tuple(fn(*args)[0].shape)


def defined(source):
    """The function that a program's source defines."""
    scope = {"torch": torch}
    exec(source, scope)
    return scope["program"]
