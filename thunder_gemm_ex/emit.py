"""Writing the graph back as a trace: claimed matmuls as `gemm`, multiplies as prims, all else as it was."""

from __future__ import annotations

from thunder.core import dtypes, prims
from thunder.core.proxies import TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, from_trace, tracectx
from thunder.core.transform_common import dce

from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.spec import Contraction, atoms_of, print_spec
from thunder_gemm_ex.spec.contraction import Dims


def emit(graph: Graph, gemm: Symbol) -> TraceCtx:
    """The rewritten trace. Operations that nobody uses any more are gone."""
    trace = from_trace(graph.trace)
    bound: list[BoundSymbol] = []
    for position, bsym in enumerate(graph.bsyms):
        matmul = graph.matmuls.get(position)
        if bsym is None:
            continue
        if matmul is None or matmul.decision == "given back":
            bound.append(bsym)
        elif matmul.decision == "multiply":
            bound.extend(_multiply(trace, graph, matmul))
        else:
            bound.append(_gemm(trace, matmul, gemm))
    trace.bound_symbols = bound
    return dce(trace)


def _gemm(trace: TraceCtx, matmul: Matmul, gemm: Symbol) -> BoundSymbol:
    text = print_spec(matmul.spec)
    args = (matmul.a, matmul.b, text) + (() if matmul.bias is None else (matmul.bias,))
    # A wrong shape here would be accepted in silence by everything downstream.
    assert matmul.spec.shape(matmul.spec.out) == tuple(matmul.out.shape), (text, matmul.out)
    with tracectx(trace):
        bsym = gemm.bind(*args, output=matmul.out)
    return _placed(bsym, matmul)


def _placed(bsym: BoundSymbol, matmul: Matmul) -> BoundSymbol:
    """`bsym` with the tags and source line of the matmul that it stands for."""
    bsym.tags = set(matmul.bsym.tags)
    bsym.header = matmul.bsym.header
    bsym.source_filename = matmul.bsym.source_filename
    bsym.source_positions = matmul.bsym.source_positions
    return bsym


def _multiply(trace: TraceCtx, graph: Graph, matmul: Matmul) -> list[BoundSymbol]:
    scope: list[BoundSymbol] = []
    with tracectx(trace):
        trace.push_scope(scope)
        made = _product(matmul, keep_strides=graph.strides_reach_output(matmul.out))
        trace.pop_scope()
    assert tuple(made.shape) == tuple(matmul.out.shape) and made.dtype == matmul.out.dtype, (matmul.spec, made)
    swap = {variableify(made): matmul.out}
    return [_placed(bsym.from_bsym_swap_proxies(swap), matmul) for bsym in scope]


def _product(matmul: Matmul, *, keep_strides: bool) -> TensorProxy:
    """a * b (+ bias) over the atoms of the output; 16-bit types compute in float32 and round once, as eager's GEMM does."""
    spec, order = matmul.spec, atoms_of(matmul.spec.out)
    wide = dtypes.float32 if matmul.out.dtype in (dtypes.bfloat16, dtypes.float16) else matmul.out.dtype
    parts = [_aligned(spec, p, getattr(spec, name), order, wide) for name, p in matmul.operands()]
    made = prims.mul(parts[0], parts[1])
    if len(parts) == 3:
        made = prims.add(made, parts[2])
    made = _cast(made, matmul.out.dtype)
    shape = spec.shape(spec.out)
    if tuple(made.shape) != shape:
        made = prims.reshape(made, shape)
    if keep_strides and _order_may_differ(spec):
        import thunder.torch as ltorch

        made = ltorch.contiguous(made)
    return made


def _order_may_differ(spec: Contraction) -> bool:
    """Whether a pointwise multiply could take another dimension order from an operand with permuted strides."""
    return any(len(atoms_of(dims)) > 1 for dims in (spec.a, spec.b))


def _aligned(spec: Contraction, x: TensorProxy, dims: Dims, order, dtype) -> TensorProxy:
    """`x` broadcast to one dimension for each atom of the output, in its order."""
    stored = atoms_of(dims)
    if tuple((atom,) for atom in stored) != dims:
        x = prims.reshape(x, tuple(spec.sizes[atom] for atom in stored))
    wanted = sorted(range(len(stored)), key=lambda i: order.index(stored[i]))
    if wanted != sorted(wanted):
        x = prims.transpose(x, tuple(wanted))
    x = _cast(x, dtype)
    at = tuple(order.index(stored[i]) for i in wanted)
    shape = tuple(spec.sizes[atom] for atom in order)
    return x if len(at) == len(order) else prims.broadcast_in_dim(x, shape, at)


def _cast(x: TensorProxy, dtype) -> TensorProxy:
    return x if x.dtype == dtype else prims.convert_element_type(x, dtype)
