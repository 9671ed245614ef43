"""The kinds of operation that a matmul can take in: what one bound symbol means, read from its name and arguments.

Torch's executor has claimed most operations before a fusion pass runs, a fuser that stands in front keeps Thunder's own
symbols, and prims stand alone under autograd: each kind is listed under all its names.
"""

from __future__ import annotations

import dataclasses
import math

from thunder.core import dtypes
from thunder.core.devices import DeviceType
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.graph.views import copying, shape_of, static, view_steps
from thunder_gemm_ex.spec import Broadcast, Permute, Reshape, Step


@dataclasses.dataclass(eq=False)
class _Kind:
    """An operation at a position of the trace that makes `out` of `source`."""

    position: int
    source: TensorProxy
    out: TensorProxy


@dataclasses.dataclass(eq=False)
class View(_Kind):
    """Only rearranges dimensions: `out` is `source` seen through `steps`, copied as `copying` says (see `views`)."""

    steps: tuple[Step, ...]
    copying: str = ""

    @property
    def name(self) -> str:
        """What it does, for reports: "permute", "reshape", "expand", or several joined by "+"."""
        kinds = {Permute: "permute", Reshape: "reshape", Broadcast: "expand"}
        found = [*(kinds[type(step)] for step in self.steps), *(["copy"] if self.copying else [])]
        return "+".join(dict.fromkeys(found)) or "copy"


@dataclasses.dataclass(eq=False)
class Cast(_Kind):
    """The same values in another dtype."""

    name: str = "cast"


@dataclasses.dataclass(eq=False)
class Scale(_Kind):
    """`out = source * factor`: a finite number other than 0, or a tensor without dimensions in host memory."""

    factor: float | TensorProxy
    name: str = "factor"


@dataclasses.dataclass(eq=False)
class Add(_Kind):
    """`out = alpha * source + beta * other`."""

    other: TensorProxy
    alpha: float
    beta: float
    name: str = "add"


@dataclasses.dataclass(eq=False)
class Sum(_Kind):
    """Sums the dimensions `dims` of the source; `keepdim` leaves them with size 1."""

    dims: tuple[int, ...]
    keepdim: bool
    name: str = "sum"


@dataclasses.dataclass(eq=False)
class Activation(_Kind):
    """`out` is "relu" or tanh-"gelu" of the source; the exact GELU is none of cuBLASLt's."""

    name: str


@dataclasses.dataclass(eq=False)
class Slope(_Kind):
    """`out = source * f'`, the gradient of an activation: `read` is what it reads besides, relu's result or gelu's input."""

    read: TensorProxy
    name: str


Kind = View | Cast | Scale | Add | Sum | Activation | Slope


def read(position: int, bsym: BoundSymbol, source: TensorProxy | None = None) -> Kind | None:
    """What the bound symbol does to `source` (default: to one of its tensors), None if that is no kind listed here."""
    outs = bsym.flat_proxy_outs
    if len(outs) != 1 or type(outs[0]) is not TensorProxy or not static(outs[0]):
        return None
    args = {p.name: p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)}
    if any(type(p) is not TensorProxy or not static(p) for p in args.values()):
        return None
    sources = args.values() if source is None else [args[source.name]] if source.name in args else []
    found = (_read(position, bsym, x, outs[0], alone=len(args) == 1) for x in sources)
    return next((kind for kind in found if kind is not None), None)


def _read(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy, *, alone: bool) -> Kind | None:
    if source.name == out.name:
        return None
    readers = (*((_view, _one_operand) if alone else ()), _activation, _pointwise)
    found = (reader(position, bsym, source, out) for reader in readers)
    return next((kind for kind in found if kind is not None), None)


def _view(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> View | None:
    if out.dtype != source.dtype or out.device != source.device:
        return None
    how = copying(bsym)
    if how is None:
        return None
    steps = view_steps(bsym, source, out)
    return None if steps is None else View(position, source, out, steps, how)


# The derivatives of activations, as `front_door` records them: symbol ids by the activation's name.
SLOPES = {"relu": "gemm_ex.relu_backward", "gelu": "gemm_ex.gelu_backward"}
_SLOPES = {symbol: name for name, symbol in SLOPES.items()}
_RELUS = {"relu", "torch.relu", "torch.nn.functional.relu"}
_GELUS = {"gelu", "torch.nn.functional.gelu"}


def is_tanh_gelu(approximate: object) -> bool:
    """Whether this form of GELU is the one that cuBLASLt has."""
    return isinstance(approximate, str) and approximate == "tanh"


def _activation(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Activation | Slope | None:
    sym = bsym.sym.id
    if out.dtype != source.dtype or out.device != source.device or not dtypes.is_float_dtype(out.dtype):
        return None
    if sym in _SLOPES:
        g, read = bsym.args[:2]
        return Slope(position, source, out, read, _SLOPES[sym]) if g.name == source.name != read.name else None
    if sym in _RELUS and not (bsym.kwargs.get("inplace") or any(bsym.args[1:])):
        return Activation(position, source, out, "relu")
    tanh = is_tanh_gelu(bsym.kwargs.get("approximate", "none"))
    return Activation(position, source, out, "gelu") if sym in _GELUS and tanh else None


_CASTS = {"to", "torch.Tensor.to", "type", "torch.Tensor.type", "convert_element_type", PrimIDs.CONVERT_ELEMENT_TYPE}
_CASTS |= {"float", "double", "half", "bfloat16", "Tensor.float", "Tensor.double", "Tensor.half", "Tensor.bfloat16"}
_SUMS = {"sum", "torch.sum", PrimIDs.SUM}
_NEGATIONS = {"neg", "torch.neg", PrimIDs.NEG}


def _one_operand(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Cast | Sum | None:
    sym = bsym.sym.id
    if sym in _CASTS and source.shape == out.shape and source.device == out.device and source.dtype != out.dtype:
        return None if bsym.kwargs.get("memory_format") is not None else Cast(position, source, out)
    if sym in _SUMS and source.dtype == out.dtype:
        return _sum(position, bsym, source, out)
    return None


def _sum(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Sum | None:
    rank = len(source.shape)
    given = bsym.args[1] if len(bsym.args) > 1 else bsym.kwargs.get("dim", bsym.kwargs.get("dims"))
    listed = range(rank) if given is None else [given] if isinstance(given, int) else given
    dims = tuple(sorted(int(d) % rank for d in listed)) if rank else ()
    keepdim = bool(bsym.args[2] if len(bsym.args) > 2 else bsym.kwargs.get("keepdim", False))
    shape = [1 if d in dims else s for d, s in enumerate(shape_of(source)) if keepdim or d not in dims]
    return Sum(position, source, out, dims, keepdim) if tuple(shape) == shape_of(out) else None


_PRODUCTS = {"mul", "torch.mul", PrimIDs.MUL}
_QUOTIENTS = {"true_divide", "torch.true_divide", "torch_div_prim_impl", "div", "torch.div", PrimIDs.DIV}
_SUMS_OF_TWO = {"add": 1, "torch.add": 1, PrimIDs.ADD: 1, "sub": -1, "torch.sub": -1, PrimIDs.SUB: -1}


def _pointwise(position: int, bsym: BoundSymbol, source: TensorProxy, out: TensorProxy) -> Scale | Add | None:
    if out.dtype != source.dtype or out.device != source.device or not dtypes.is_float_dtype(out.dtype):
        return None
    if shape_of(out) != shape_of(source):
        return None
    sym = bsym.sym.id
    if sym in _NEGATIONS:
        return Scale(position, source, out, -1.0)
    if len(bsym.args) < 2:
        return None
    x, y = bsym.args[:2]
    first = isinstance(x, TensorProxy) and x.name == source.name
    other = y if first else x
    if isinstance(other, TensorProxy) and other.name == source.name:
        return None
    if sym in _PRODUCTS:
        return _scale(position, source, out, other, 1)
    if sym in _QUOTIENTS and first and not bsym.kwargs.get("rounding_mode"):
        return _scale(position, source, out, other, -1)
    if sym in _SUMS_OF_TWO and type(other) is TensorProxy and other.dtype == out.dtype and other.device == out.device:
        alpha = bsym.kwargs.get("alpha", 1)
        if not _plain_number(alpha):
            return None
        scaled = _SUMS_OF_TWO[sym] * (1 if alpha is None else alpha)
        return Add(position, source, out, other, *((1, scaled) if first else (scaled, 1)))
    return None


def _plain_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, (bool, NumberProxy)))


def _scale(position: int, source: TensorProxy, out: TensorProxy, factor: object, power: int) -> Scale | None:
    if isinstance(factor, TensorProxy):
        # One in device memory would have to be waited for.
        host = (
            factor.device.devicetype is DeviceType.CPU and not shape_of(factor) and dtypes.is_float_dtype(factor.dtype)
        )
        return Scale(position, source, out, factor) if host and power == 1 else None
    if not isinstance(factor, (int, float)) or not _plain_number(factor):
        return None
    # 0 and what is not finite would make NaN of finite products, where a GEMM skips the product.
    if factor == 0 or not math.isfinite(factor):
        return None
    return Scale(position, source, out, float(factor) ** power)
