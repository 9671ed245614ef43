"""Under thunderfx no operation splits the program: what cannot be in one subgraph cannot be folded across."""

import pytest
import torch
from thunder.dynamo import thunderfx

import thunder_gemm_ex as gx
from tests.front_door.table import OPS

# The first way of writing each operation in one program, the second in another, and so on.
TURNS = range(max(len(op.ways) for op in OPS))


def program_of(turn):
    """(program, arguments): every operation that has so many ways, with views above it and pointwise work below."""
    ways = [(list(op.ways.values())[turn], op.shapes[0]) for op in OPS if len(op.ways) > turn]

    def program(*args):
        rest, made = list(args), []
        for way, shapes in ways:
            first, *others = [rest.pop(0) for _ in shapes]
            made.append(torch.relu(way(first.unsqueeze(0).squeeze(0), *others)) + 1)
        return made

    return program, [torch.randn(shape) for _, shapes in ways for shape in shapes]


def compiled_by_thunderfx(program, args, **options):
    """(outputs, subgraphs, why there is more than one)."""
    torch._dynamo.reset()
    compiled = thunderfx(program, **options)
    outs = compiled(*args)
    infos = compiled._backend.subgraph_infos
    return outs, [x for i in infos for x in i.thunder_compiled_fns], [r for i in infos for r in i.split_reasons]


@pytest.mark.parametrize("turn", TURNS)
def test_no_operation_splits_the_program(turn):
    program, args = program_of(turn)
    outs, parts, reasons = compiled_by_thunderfx(program, args, executors=gx.executors())
    assert not reasons
    assert len(parts) == 1
    for ours, eager in zip(outs, program(*args)):
        torch.testing.assert_close(ours, eager)


# Does not -------------------------------------------------------------------------------------------------------------


def test_without_the_executor_thunder_splits_as_before():
    _, _, reasons = compiled_by_thunderfx(lambda a, b: torch.mm(a, b) + 1, (torch.randn(3, 4), torch.randn(4, 6)))
    assert reasons
