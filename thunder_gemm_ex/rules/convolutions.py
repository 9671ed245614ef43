"""Convolutions that are a plain contraction: every window is one element, "b c y x, o c -> b o y x"."""

from __future__ import annotations

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.spec import Contraction, atoms_of

_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_NAMES = ("stride", "padding", "dilation", "groups")
_PRIM_NAMES = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def is_contraction(bsym: BoundSymbol) -> bool:
    """Whether a convolution has windows of one element, no stride, no padding and one group."""
    weight = bsym.args[1] if len(bsym.args) > 1 else bsym.kwargs.get("weight")
    if type(weight) is not TensorProxy or any(size != 1 for size in weight._shape[2:]):
        return False
    prim = bsym.sym.id is PrimIDs.CONVOLUTION or bsym.sym.name == "convolution"
    names = _PRIM_NAMES if prim else _NAMES
    values = _DEFAULTS | dict(zip(names, bsym.args[3:])) | {n: bsym.kwargs[n] for n in names if n in bsym.kwargs}
    return (
        _all(values["stride"], 1)
        and _all(values["padding"], 0)
        and values["groups"] == 1
        and not values.get("transposed", False)
        and _all(values.get("output_padding", 0), 0)
    )


def follows_input(spec: Contraction) -> bool:
    """Whether the output lies in memory as the input does, channels for channels: eager keeps the memory format.

    Not without a batch, and not over one dimension: for those there is no channels-last format.
    """
    if len(spec.b) < 4 or len(spec.a) != len(spec.b):
        return False
    channels = set(spec.k)
    stored = ["channels" if x in channels else x for x in atoms_of(spec.a)]
    written = ["channels" if x in set(spec.n) else x for x in atoms_of(spec.out)]
    return list(dict.fromkeys(stored)) == list(dict.fromkeys(written))


def _all(value: object, wanted: int) -> bool:
    items = value if isinstance(value, (tuple, list)) else (value,)
    # "valid" is no padding; "same" of a window of one element is none either.
    return all(item == wanted or (wanted == 0 and item in ("valid", "same")) for item in items)
