"""Thunder's CUDA graph transform over traces for CUDA: every `gemm` is inside a graph, none is between two.

Traces alone: capturing needs a GPU (tests/gpu/test_running.py captures and replays).
"""

import pytest
import torch
from thunder.transforms.cudagraph import CUDAGraphTransform

import thunder_gemm_ex as gx
from tests.lab import final_traces, names, needs_nvfuser

pytestmark = needs_nvfuser


def program(x, w):
    return torch.tanh(x @ w.t()) @ w


def inputs(grad):
    def make(device):
        return tuple(torch.randn(shape, device=device, requires_grad=grad) for shape in ((2, 3, 4), (5, 4)))

    return make


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_the_whole_program_is_one_graph_each_way(grad):
    plain = final_traces(program, inputs(grad), executors=gx.executors())
    graphs = final_traces(program, inputs(grad), executors=gx.executors(), transforms=[CUDAGraphTransform()])
    assert names(graphs.forward) == ["CUDAGraph1"]
    assert names(graphs.backward) == (["CUDAGraph2"] if grad else [])
    for part, lines in zip(graphs, plain):
        inside = [name for line in part for name in line.inside]
        assert inside.count("gemm") == names(lines).count("gemm")
    assert names(plain.forward).count("gemm") >= 1


@pytest.mark.parametrize("epilogue", [False, True], ids=["plain", "with epilogues"])
def test_a_call_of_several_outputs_is_in_a_graph(epilogue):
    """The graph hands on what the call writes for the backward, which stands at one address as every result of a graph."""

    def mlp(x, w, b, v):
        h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b), approximate="tanh")
        return torch.nn.functional.linear(h, v)

    def make(device):
        shapes = ((4, 8, 64), (128, 64), (128,), (64, 128))
        return tuple(torch.randn(s, device=device, dtype=torch.bfloat16, requires_grad=True) for s in shapes)

    options = {"executors": gx.executors(), "gemm_epilogue": epilogue}
    plain, graphs = (final_traces(mlp, make, transforms=t, **options) for t in ([], [CUDAGraphTransform()]))
    assert any('epilogue="gelu_aux"' in line.text for line in plain.forward) == epilogue
    assert [names(part) for part in graphs] == [["CUDAGraph1"], ["CUDAGraph2"]]
    assert [_outputs(lines) for lines in graphs] == [_kept(plain.forward, graphs.forward), 4]


def _outputs(lines):
    """How many tensors the graph hands out."""
    return len(lines[0].text.partition(" = ")[0].strip("[]").split(", "))


def _kept(plain, graphs):
    """Of the forward: its output, and whatever the backward reads that is no input."""
    made = [name for line in plain for name in line.text.partition(" = ")[0].strip("[]").split(", ")]
    return sum(name in graphs[0].text.partition(" = ")[0] for name in made)
