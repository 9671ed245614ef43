"""ATen graphs for the tests of the pass: traced from a function, rewritten, run and counted."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from thunder_gemm_ex.inductor import inductor_pass
from thunder_gemm_ex.inductor.views import view_at

GEMM = torch.ops.thunder_gemm_ex.gemm.default


def traced(function, *args, symbolic=False):
    """`function` as a graph of ATen operations on tensors of known sizes and strides."""
    return make_fx(function, tracing_mode="symbolic" if symbolic else "fake")(*args)


def count_views(graph):
    """Nodes that only rearrange dimensions."""
    return sum(view_at(node) is not None for node in graph.nodes)


def specs(graph):
    """The spec of every product that was folded, in order."""
    return [node.args[2] for node in graph.nodes if node.target is GEMM]


def targets(graph):
    """The names of the operations left, without the namespace."""
    return [str(n.target).removeprefix("aten.").split(".")[0] for n in graph.nodes if n.op == "call_function"]


def folded(function, *args, symbolic=False):
    """The rewritten graph, after checking that it returns what the function does, in the same strides."""
    module = traced(function, *args, symbolic=symbolic)
    inductor_pass(module.graph)
    module.recompile()
    expected, found = function(*args), module(*args)
    for ours, theirs in zip(_flat(found), _flat(expected), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()
    return module.graph


def _flat(value):
    return torch.utils._pytree.tree_leaves(value)
