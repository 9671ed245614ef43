"""Convolutions that are a plain contraction.

Every window is one element, "b c y x, o c 1 1 -> b o y x", or the whole input, "b c y x, o c y x -> b o 1 1": the gradient
of the first for its weight is the second.
"""

from __future__ import annotations

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_gemm_ex.spec import Contraction, atoms_of

_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
_NAMES = ("stride", "padding", "dilation", "groups")
_PRIM_NAMES = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def is_contraction(bsym: BoundSymbol) -> bool:
    """Whether each dimension of a convolution's windows is one or the input's, with no stride, padding or groups."""
    x = bsym.args[0] if bsym.args else bsym.kwargs.get("a", bsym.kwargs.get("input"))
    weight = bsym.args[1] if len(bsym.args) > 1 else bsym.kwargs.get("weight")
    if type(x) is not TensorProxy or type(weight) is not TensorProxy:
        return False
    windows = weight._shape[2:]
    space = x._shape[len(x._shape) - len(windows) :]
    if any(window not in (1, size) for window, size in zip(windows, space)):
        return False
    prim = bsym.sym.id is PrimIDs.CONVOLUTION or bsym.sym.name == "convolution"
    names = _PRIM_NAMES if prim else _NAMES
    values = _DEFAULTS | dict(zip(names, bsym.args[3:])) | {n: bsym.kwargs[n] for n in names if n in bsym.kwargs}
    return (
        _all(values["stride"], 1)
        and (_all(values["dilation"], 1) or all(window == 1 for window in windows))
        and (_all(values["padding"], 0) or (_same(values["padding"]) and all(window == 1 for window in windows)))
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
    return all(item == wanted or (wanted == 0 and item == "valid") for item in items)


def _same(padding: object) -> bool:
    # Of a window of one element that is none.
    return padding == "same"
