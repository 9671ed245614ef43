"""Writing the graph back as a trace: claimed matmuls as `gemm`, multiplies as pointwise operations, all else as it was."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import thunder.torch as ltorch
from thunder.core import dtypes
from thunder.core.baseutils import BoundSymbolInterface
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, from_trace, tracectx
from thunder.core.transform_common import dce
from thunder.executors.torchex import ex as torch_executor

from thunder_gemm_ex.graph import Cast, Graph, Matmul
from thunder_gemm_ex.rules.layout import strides_reach_output
from thunder_gemm_ex.rules.small import UNROLLED
from thunder_gemm_ex.spec import Contraction, atoms_of, print_spec
from thunder_gemm_ex.spec.contraction import Dims

# Terms of a call at these values are not written: no bias, alpha and beta 1.
_DEFAULTS = (None, 1, 1)


@dataclasses.dataclass(frozen=True)
class Symbols:
    """What is written: products with the program's numerics, and kernels, by symbol id, for what no fuser takes."""

    gemm: Symbol
    scaled_gemm: Symbol
    kernels: Mapping[Any, Symbol]
    numerics: str = "torch"

    @property
    def how(self) -> dict[str, Any]:
        """The keywords that every `gemm` of the program has."""
        return {} if self.numerics == "torch" else {"numerics": self.numerics}


def emit(graph: Graph, symbols: Symbols) -> TraceCtx:
    """The rewritten trace, without operations that nobody uses any more; the trace itself where nothing is rewritten."""
    if not _changes(graph, symbols):
        return graph.trace
    trace = from_trace(graph.trace)
    bound: list[BoundSymbolInterface] = []
    inserted = _inserted(trace, graph)
    for position, bsym in enumerate(graph.bsyms):
        matmul = graph.matmuls.get(position)
        bound.extend(inserted[position])
        if bsym is None or (matmul is not None and matmul.before is not None):
            continue
        if position in graph.views_of_torch:
            bound.extend(_by_torch(trace, bsym))
        elif matmul is None or matmul.decision == "given back":
            bound.append(_as_it_was(trace, graph, position, symbols))
        elif matmul.decision == "multiply":
            bound.extend(_multiply(trace, graph, matmul))
        else:
            bound.append(_gemm(trace, matmul, symbols))
    trace.bound_symbols = bound
    return dce(trace)


def _inserted(trace: TraceCtx, graph: Graph) -> defaultdict[int, list[BoundSymbol]]:
    """What goes before an operation, by its position: multiplies that are written where they are read, and casts."""
    before: defaultdict[int, list[BoundSymbol]] = defaultdict(list)
    for matmul in graph.matmuls.values():
        if matmul.before is not None:
            before[matmul.before] += _multiply(trace, graph, matmul)
    for cast in graph.casts:
        before[cast.position] += _cast(trace, cast, graph.original[cast.position])
    return before


def _changes(graph: Graph, symbols: Symbols) -> bool:
    claimed = any(m.decision in ("claimed", "multiply") for m in graph.matmuls.values())
    return claimed or bool(graph.views_of_torch) or any(_rebound(graph, p, symbols) for p in range(len(graph.bsyms)))


def _rebound(graph: Graph, position: int, symbols: Symbols) -> Symbol | None:
    """The symbol that is written in place of one that no rule touched, if it is another or gets other keywords."""
    bsym = graph.bsyms[position]
    if bsym is None or position in graph.matmuls:
        return None
    if bsym.sym.id == symbols.gemm.id:
        return symbols.gemm if symbols.how and position not in graph.unpromised else None
    kernel = symbols.kernels.get(bsym.sym.id)
    return None if kernel is None or graph.fused(position) else kernel


def _as_it_was(trace: TraceCtx, graph: Graph, position: int, symbols: Symbols) -> BoundSymbol:
    bsym, other = graph.bsym_at(position), _rebound(graph, position, symbols)
    if other is None:
        return bsym
    how = symbols.how if other is symbols.gemm else {}
    with tracectx(trace):
        return _placed(other.bind(*bsym.args, **(bsym.kwargs | how), output=bsym.output), bsym)


def _gemm(trace: TraceCtx, matmul: Matmul, symbols: Symbols) -> BoundSymbol:
    text = print_spec(matmul.spec)
    terms = [matmul.bias, matmul.alpha, matmul.beta]
    while terms and not isinstance(terms[-1], TensorProxy) and terms[-1] == _DEFAULTS[len(terms) - 1]:
        terms.pop()
    args = (matmul.a, matmul.b, text, *terms)
    # A wrong shape here would be accepted in silence by everything downstream.
    assert matmul.spec.shape(matmul.spec.out) == tuple(matmul.out.shape), (text, matmul.out)
    with tracectx(trace):
        if matmul.scales is not None:
            found = matmul.scales
            args = (matmul.a, matmul.b, text, found.a, found.b, matmul.bias)
            how = symbols.how | {"out_dtype": found.out_dtype, "fast_accumulate": found.fast_accumulate}
            return _placed(symbols.scaled_gemm.bind(*args, **how, output=matmul.out), matmul.bsym)
        outputs = matmul.makes()
        bsym = symbols.gemm.bind(*args, **_how(matmul, symbols), output=outputs if len(outputs) > 1 else matmul.out)
    return _placed(bsym, matmul.bsym)


def _how(matmul: Matmul, symbols: Symbols) -> dict[str, Any]:
    epilogue = {"epilogue": matmul.epilogue} if matmul.epilogue else {}
    return symbols.how | epilogue | ({"aux": matmul.aux} if matmul.reads_aux else {})


def _placed(bsym: BoundSymbol, like: BoundSymbol) -> BoundSymbol:
    """`bsym` with the tags and source line of the operation that it stands for."""
    bsym.tags = set(like.tags)
    bsym.header = like.header
    bsym.source_filename = like.source_filename
    bsym.source_positions = like.source_positions
    return bsym


def _written(
    trace: TraceCtx, write: Callable[[], TensorProxy], out: TensorProxy, like: BoundSymbol
) -> list[BoundSymbol]:
    """The operations that `write` performs, their result named `out`."""
    scope: list[BoundSymbol] = []
    with tracectx(trace):
        trace.push_scope(scope)
        made = write()
        trace.pop_scope()
    assert (tuple(made.shape), made.dtype) == (tuple(out.shape), out.dtype), (out, made)
    swap: dict[Any, Proxy] = {variableify(made): out}
    return [_placed(bsym.from_bsym_swap_proxies(swap), like) for bsym in scope]


def _by_torch(trace: TraceCtx, bsym: BoundSymbol) -> list[BoundSymbol]:
    """The operation as torch's executor claims it."""
    symbol = torch_executor.implmap[bsym.sym.id].symbol
    if symbol is None:
        return [bsym]
    with tracectx(trace):
        # Without what it is made of: a fuser would look inside and take it all the same.
        return [_placed(symbol.bind(*bsym.args, **bsym.kwargs, output=bsym.output), bsym)]


def _cast(trace: TraceCtx, cast: Cast, like: BoundSymbol) -> list[BoundSymbol]:
    return _written(trace, lambda: ltorch.to(cast.source, cast.out.dtype), cast.out, like)


def _multiply(trace: TraceCtx, graph: Graph, matmul: Matmul) -> list[BoundSymbol]:
    keep = strides_reach_output(graph, matmul.out)
    return _written(trace, lambda: _product(matmul, keep_strides=keep), matmul.out, matmul.bsym)


def _product(matmul: Matmul, *, keep_strides: bool) -> TensorProxy:
    """alpha * a * b + beta * bias, broadcast, and summed over k. In 16-bit types all but a bare product is computed in
    float32 and rounded once, as a GEMM does."""
    spec, dtype = matmul.spec, matmul.out.dtype
    groups = _groups(spec)
    if keep_strides:
        # Dimensions of size 1 have strides of their own, and a multiply may let them decide the order of the others.
        groups = tuple(group for group in groups if group)
    inside = {"a": (*groups, spec.k), "b": (*groups, spec.k)} if spec.k else {}
    parts = [_aligned(spec, p, getattr(spec, name), inside.get(name, groups)) for name, p in matmul.operands()]
    terms = bool(spec.k) or matmul.scaled or matmul.bias is not None
    wide = terms and dtype in (dtypes.bfloat16, dtypes.float16)
    if wide:
        parts = [ltorch.to(p, dtypes.float32) for p in parts]
    made = _summed(parts[0], parts[1], spec.extent(spec.k)) if spec.k else ltorch.mul(parts[0], parts[1])
    if matmul.scaled:
        made = ltorch.mul(made, matmul.alpha)
    if len(parts) == 3:
        made = ltorch.add(made, parts[2] if matmul.beta == 1 else ltorch.mul(parts[2], matmul.beta))
    if wide:
        made = ltorch.to(made, dtype)
    made = _reshaped(made, spec.shape(spec.out))
    if keep_strides and _order_may_differ(spec):
        made = ltorch.contiguous(made)
    return made


def _summed(a: TensorProxy, b: TensorProxy, k: int) -> TensorProxy:
    """The sum over the last dimension, of size k, of a * b: multiply-adds where there are few of them."""
    if k > UNROLLED:
        return ltorch.sum(ltorch.mul(a, b), -1)
    products = [ltorch.mul(ltorch.select(a, -1, i), ltorch.select(b, -1, i)) for i in range(k)]
    return functools.reduce(ltorch.add, products)


def _groups(spec: Contraction) -> Dims:
    """The dimensions to multiply over: those of the output, or its atoms where a tensor has but a part of a dimension."""
    held = [set(atoms_of(dims)) for name, dims in spec.tensors() if name != "out"]
    if all(len({tuple(x in atoms for atoms in held) for x in dim}) <= 1 for dim in spec.out):
        return spec.out
    return tuple((x,) for x in atoms_of(spec.out))


def _order_may_differ(spec: Contraction) -> bool:
    """Whether a pointwise multiply could take another dimension order from an operand with permuted strides."""
    return any(len(atoms_of(dims)) > 1 for dims in (spec.a, spec.b))


def _aligned(spec: Contraction, x: TensorProxy, dims: Dims, groups: Dims) -> TensorProxy:
    """`x` with one dimension for each of `groups`, of size 1 where it lacks that one."""
    stored = atoms_of(dims)
    wanted = [x for group in groups for x in group if x in stored]
    if wanted != list(stored):
        x = _reshaped(x, tuple(spec.sizes[atom] for atom in stored))
        x = ltorch.permute(x, tuple(stored.index(atom) for atom in wanted))
    return _reshaped(x, tuple(spec.extent(atom for atom in group if atom in stored) for group in groups))


def _reshaped(x: TensorProxy, shape: tuple[int, ...]) -> TensorProxy:
    return x if tuple(x.shape) == shape else ltorch.reshape(x, shape)
