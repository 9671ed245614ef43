"""Rule: a matmul with little to sum becomes pointwise work and a sum, where a fuser makes a region that takes it in.

In the region its result need not be written, nor read again, and nothing is launched for it: that is the gain. It lies
outside of every call, so the products are computed by the fuser's own loops, which is what it costs.
"""

from __future__ import annotations

import thunder.torch as ltorch
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, tracectx
from thunder.extend import FusionExecutor

from thunder_gemm_ex.graph import Graph, Matmul, is_backward
from thunder_gemm_ex.rules.find import is_floating
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.layout import Layout, layout_of
from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.cost import from_dims

# A sum over at most so many is written out as multiply-adds, which fuse like any pointwise work; a longer one is a sum.
UNROLLED = 4
# Below so many multiply-adds the spared call pays for everything; up to SHORT of them for each result the fuser's loop is
# faster than a call of any size, if it runs along memory. Measured by benchmarks/small.py, see docs/design.md.
FEW, SHORT = 1 << 16, 8


def is_small(spec: Contraction, mode: str) -> str:
    """What makes `mode` ("vector" or "small") look at a contraction, "" where it does not. Sizes are static."""
    m, n, k = (spec.extent(atoms) for atoms in (spec.m, spec.n, spec.k))
    if mode in ("vector", "small") and 1 in (m, n):
        return f"{'m' if m == 1 else 'n'}=1"
    if mode == "small" and (k <= SHORT or spec.flops <= 2 * FEW):
        return f"m={m}, n={n}, k={k}"
    return ""


def is_faster(spec: Contraction, a: Layout, b: Layout) -> bool:
    """The cost rule: whether a fuser's loops over a region make up for the call that they spare."""
    if spec.flops <= 2 * FEW:
        return True
    steps = [from_dims(spec, dims, layout.strides) for dims, layout in ((spec.a, a), (spec.b, b))]
    rows = all(not spec.k or step[spec.k[-1]] == 1 for step in steps)
    if not (spec.m and spec.n):
        # A dot product for each result; summing down columns is what BLAS does much better.
        return rows
    innermost = atoms_of(spec.out)[-1]
    return spec.extent(spec.k) <= SHORT and all(step.get(innermost, 1) == 1 for step in steps)


def mark_small(graph: Graph, mode: str, fuel: Fuel) -> None:
    """Decide "multiply" for every small matmul that joins a region."""
    for matmul in graph.matmuls.values():
        if not matmul.spec.k or matmul.decision != "claimed":
            continue
        reader, sentence = judge(graph, matmul, mode)
        if reader is not None and fuel():
            matmul.decision, matmul.reason, matmul.before = "multiply", sentence, reader
        elif reader is None and sentence:
            matmul.kept["k"] = sentence


def judge(graph: Graph, matmul: Matmul, mode: str) -> tuple[int | None, str]:
    """(position of the reader whose region a matmul joins or None, why in words); no words where `mode` has no say."""
    spec, why = matmul.spec, is_small(matmul.spec, mode)
    if not why or matmul.epilogue or matmul.scales is not None or not is_floating(matmul.a):
        return None, ""
    if not is_faster(spec, layout_of(graph, matmul.a), layout_of(graph, matmul.b)):
        return None, f"{why} stays a matmul: so many multiply-adds are faster in a call, as the operands lie"
    fuser, reader = region_below(graph, matmul)
    if fuser is None:
        return None, f"{why} stays a matmul: no fuser takes what reads it into a region"
    return reader, f"{why}: multiplied and summed inside {fuser.name}'s region"


def region_below(graph: Graph, matmul: Matmul) -> tuple[FusionExecutor | None, int]:
    """(the fuser that takes all that reads the result into regions, and the pointwise form too, the first reader).

    Written right before that reader, the pointwise form is part of its region, whether a fuser makes regions of operations
    that follow each other or of those that depend on each other: the number of regions does not grow.
    """
    name = matmul.out.name
    readers = sorted(graph.live_users(name))
    fusers = {None if graph.view_at(r) or r in graph.matmuls else graph.fuser_of(r) for r in readers}
    if len(fusers) != 1 or name in graph.returned or is_backward(graph.bsym_at(readers[0])) != matmul.backward:
        return None, 0
    if any(matmul.position < p < readers[0] for p in graph.mutations):
        return None, 0  # what it reads, under whatever name, may be other values by then
    (fuser,) = fusers
    if fuser is None or not all(map(fuser.can_fuse, _pointwise(matmul))):
        return None, 0
    return fuser, readers[0]


def _pointwise(matmul: Matmul) -> list[BoundSymbol]:
    """A multiply and a sum of such operands, to ask a fuser about."""
    scope: list[BoundSymbol] = []
    scratch = TraceCtx()
    with tracectx(scratch):
        scratch.push_scope(scope)
        ltorch.sum(ltorch.mul(matmul.a, matmul.a), -1)
        scratch.pop_scope()
    return scope
