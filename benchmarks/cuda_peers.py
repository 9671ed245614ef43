"""Other libraries' ways to one product on a GPU, each where it is installed. None of them has run on a GPU here yet.

A peer that cannot take a problem says so when it is first called, and `Comparison.check` keeps what it said.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import torch

Ways = dict[str, Callable[[], list[torch.Tensor]]]


def products(a: torch.Tensor, b: torch.Tensor) -> Ways:
    """a [m, k] @ b [k, n], with any strides: nvmath-python's planned Matmul and CuPy's matmul."""
    makers = {"nvmath": functools.partial(_nvmath, a, b, None, None), "CuPy": functools.partial(_cupy, a, b)}
    return {name: _Late(name, make).call for name, make in makers.items() if _installed(name)}


def linear(epilogue: str, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> Ways:
    """x [m, k] @ w[n, k].T + bias, and the activation that the name of the epilogue tells, in one call.

    nvmath's activations are on columns, so that it is given the transposed problem. TransformerEngine has no activation.
    """
    epilog = {"bias": "BIAS", "bias and ReLU": "RELU_BIAS", "bias and GELU": "GELU_BIAS"}[epilogue]
    makers = {"nvmath": functools.partial(_nvmath, w, x.t(), epilog, bias)}
    if epilogue == "bias":
        makers["TransformerEngine"] = functools.partial(_transformer_engine, x, w, bias)
    return {name: _Late(name, make).call for name, make in makers.items() if _installed(name)}


_MODULES = {"nvmath": "nvmath", "CuPy": "cupy", "TransformerEngine": "transformer_engine.pytorch"}


def _installed(name: str) -> bool:
    try:
        importlib.import_module(_MODULES[name])
    except Exception:  # some of them fail in other ways than ImportError where there is no GPU
        return False
    return True


class _Late:
    """A peer that is set up by its first call, which is not timed: where that fails it is no candidate."""

    def __init__(self, name: str, make: Callable[[], Callable[[], torch.Tensor]]) -> None:
        self.name, self.make = name, make
        self.run: Callable[[], torch.Tensor] | None = None

    def call(self) -> list[torch.Tensor]:
        """The product."""
        if self.run is None:
            self.run = self.make()
        return [self.run()]


def _nvmath(a, b, epilog: str | None, bias: torch.Tensor | None) -> Callable[[], torch.Tensor]:
    from nvmath.linalg import advanced

    planned = advanced.Matmul(a.detach(), b.detach())
    if epilog is None:
        planned.plan()
        return planned.execute
    planned.plan(epilog=advanced.MatmulEpilog[epilog], epilog_inputs={"bias": bias.detach()})
    return lambda: planned.execute().t()


def _cupy(a: torch.Tensor, b: torch.Tensor) -> Callable[[], torch.Tensor]:
    import cupy

    if a.dtype not in (torch.float16, torch.float32, torch.float64):
        raise TypeError(f"CuPy has no {a.dtype}")
    left, right = (cupy.from_dlpack(t.detach()) for t in (a, b))
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def run() -> torch.Tensor:
        with stream:
            return torch.from_dlpack(cupy.matmul(left, right))

    return run


def _transformer_engine(x, w, bias) -> Callable[[], torch.Tensor]:
    import transformer_engine.pytorch as te

    layer = te.Linear(w.shape[1], w.shape[0], bias=True, params_dtype=w.dtype, device=w.device)
    with torch.no_grad():
        layer.weight.copy_(w)
        layer.bias.copy_(bias)
    return functools.partial(torch.no_grad()(layer), x)
