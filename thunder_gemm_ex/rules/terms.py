"""Rule: a result absorbs what is added to it and the factor that scales it: the GEMM's beta and bias, and its alpha.

The product is then rounded once, with the terms, where separate operations round in between.
"""

from __future__ import annotations

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Add, Graph, Matmul, Scale
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.rules.layout import strides_reach_output
from thunder_gemm_ex.spec import Contraction, atoms_of, fold_operand
from thunder_gemm_ex.spec.contraction import Dims


def take_factor(graph: Graph, matmul: Matmul, scale: Scale, fuel: Fuel) -> bool:
    """Let `matmul` scale its result by the factor; a tensor as factor only where nothing else scales it."""
    if isinstance(scale.factor, TensorProxy):
        if matmul.scaled or matmul.bias is not None or not movable(graph, matmul):
            matmul.kept["result"] = f"the factor {scale.factor.name} below stays: the call has other terms already"
            return False
        if not fuel():
            return False
        matmul.alpha = scale.factor
        graph.take_result(matmul, scale, move=True)
        graph.note_use(matmul, scale.factor)
    else:
        if isinstance(matmul.alpha, TensorProxy) or not fuel():
            return False
        matmul.alpha *= scale.factor
        matmul.beta *= scale.factor if matmul.bias is not None else 1
        graph.take_result(matmul, scale)
    matmul.folded.append("a factor of the result")
    return True


def take_term(graph: Graph, matmul: Matmul, add: Add, fuel: Fuel) -> bool:
    """Let `matmul` add a tensor that is broadcast to its result: a bias, or the C of a GEMM."""
    if matmul.bias is not None or isinstance(matmul.alpha, TensorProxy) or not movable(graph, matmul):
        return False
    spec = matmul.spec.with_bias(_dims(matmul.spec.out, add.other))
    least = _without_views(graph, spec, add.other)
    atoms = set(atoms_of(least.bias or ()))
    if atoms == set(atoms_of(least.out)):
        accumulated = _accumulated(graph, add)
        if any(graph.fused_with_others(p, along=accumulated) for p in accumulated | {add.position}):
            matmul.kept["result"] = "add below stays: a fuser takes it into a region with its neighbours"
            return False
    elif atoms not in (set(least.m), set(least.n)):
        matmul.kept["result"] = "add below stays: what is added is neither as large as the result nor one row or column"
        return False
    if _decides_order(graph, least, add) and not matmul.backward and strides_reach_output(graph, add.out):
        matmul.kept["result"] = "add below stays: the program returns it with the strides of what is added"
        return False
    if _kept_waiting(graph, matmul, add) > _bytes(matmul.out):
        matmul.kept["result"] = (
            "add below stays: operands would wait for its other term, and are larger than the result"
        )
        return False
    if not fuel():
        return False
    matmul.alpha, matmul.beta = matmul.alpha * add.alpha, add.beta
    matmul.spec = spec
    graph.take_result(matmul, add, move=True)
    graph.add_operand(matmul, "bias", add.other)
    matmul.folded.append("what is added to the result")
    return True


def _accumulated(graph: Graph, add: Add) -> set[int]:
    """Positions of the additions in a sum of products, such as q a + k b + v c: each is C of another GEMM, so none stays.

    An addition belongs to it that adds a product which nobody else needs, and is next to one that belongs to it.
    """
    found, todo = set(), [add.position]
    while todo:
        position = todo.pop()
        kind = graph.kind_at(position)
        if position in found or not isinstance(kind, Add):
            continue
        operands = (kind.source, kind.other)
        if not any(_only_here(graph, x) for x in operands):
            continue
        found.add(position)
        todo += [graph.makers[x.name] for x in operands if x.name in graph.makers]
        todo += graph.live_users(kind.out.name)
    return found


def _only_here(graph: Graph, proxy: TensorProxy) -> bool:
    product = graph.makers.get(proxy.name) in graph.matmuls
    return product and len(graph.live_users(proxy.name)) == 1 and proxy.name not in graph.returned


def _without_views(graph: Graph, spec: Contraction, other: TensorProxy) -> Contraction:
    """The spec with the added tensor as it is without the views that broadcast it."""
    while (view := graph.view_making(other)) is not None:
        folded = fold_operand(spec, "bias", view.steps)
        if folded is None:
            break
        spec, other = folded, view.source
    return spec


def _decides_order(graph: Graph, spec: Contraction, add: Add) -> bool:
    """Whether a sum may lie in memory as the added tensor does: where that comes first, and its dimensions have an order."""
    first = graph.bsym_at(add.position).args[0]
    if not isinstance(first, TensorProxy) or first.name != add.other.name:
        return False
    # What another matmul makes has the order of its dimensions, as this one's result has.
    atoms = set(atoms_of(spec.bias or ()))
    return sum(bool(atoms & set(dim)) for dim in spec.out) > 1 and graph.makers.get(first.name) not in graph.matmuls


def _kept_waiting(graph: Graph, matmul: Matmul, add: Add) -> int:
    """Bytes that would stay until the addition for `matmul` alone, if what is added to its result is made after it."""
    if graph.makers.get(add.other.name, -1) < matmul.position:
        return 0
    return sum(_bytes(p) for p in {p.name: p for p in matmul.reads()}.values() if _done_before(graph, p, add.position))


def _done_before(graph: Graph, proxy: TensorProxy, position: int) -> bool:
    """Whether a tensor that the program made, not one that it was given, is needed nowhere from `position` on."""
    maker = graph.bsyms[graph.makers[proxy.name]] if proxy.name in graph.makers else None
    given = maker is None or maker.sym.id is PrimIDs.UNPACK_TRIVIAL
    return not given and proxy.name not in graph.returned and max(graph.live_users(proxy.name), default=-1) < position


def _bytes(proxy: TensorProxy) -> int:
    return int(proxy.numel * proxy.dtype.bytes)


def movable(graph: Graph, matmul: Matmul) -> bool:
    """Whether a matmul may run later than where it stands: nothing that it reads is written to."""
    return not any(p.name in graph.mutated for p in matmul.reads())


def _dims(out: Dims, other: TensorProxy) -> Dims:
    """The labels of a tensor that broadcasts to the output."""
    shape = tuple(other.shape)
    last = out[len(out) - len(shape) :]
    return tuple(() if size == 1 else dim for size, dim in zip(shape, last))
