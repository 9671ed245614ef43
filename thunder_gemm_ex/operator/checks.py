"""What a call may be given: every refusal in one sentence that names the argument, what it was and what would be right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Activation = Callable[[torch.Tensor], torch.Tensor]
ACTIVATIONS: Mapping[str | None, Activation | None] = {
    None: None,
    "relu": torch.relu,
    "gelu": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
}
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


def activated(x: torch.Tensor, activation: str | None) -> torch.Tensor:
    """`x` through the activation, if there is one."""
    function = ACTIVATIONS[activation]
    return x if function is None else function(x)


def check_options(activation: object, alpha: object, beta: object, c: object) -> None:
    """Raise unless activation, alpha and beta are what the signature says, and `c` is there where beta scales it."""
    if activation not in ACTIVATIONS:
        raise ValueError(f'activation must be None, "relu" or "gelu", was {activation!r}')
    for name, value in (("alpha", alpha), ("beta", beta)):
        if isinstance(value, bool) or not isinstance(value, _NUMBERS):
            raise TypeError(f"{name} must be a number, was {type(value).__name__}")
    if c is None and beta != 0:
        raise ValueError(f"beta is {beta} but c is None: give the tensor that it scales")


def check_kinds(a: object, b: object, bias: object, c: object) -> None:
    """Raise unless every operand is a strided torch.Tensor."""
    for name, tensor in (("a", a), ("b", b), ("bias", bias), ("c", c)):
        if tensor is None and name in ("bias", "c"):
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, was {type(tensor).__name__}")
        if tensor.is_nested:
            raise TypeError(f"{name} is a nested tensor: contract its parts one by one")
        if tensor.layout is not torch.strided:
            raise TypeError(f"{name} of shape {tuple(tensor.shape)} is a {tensor.layout} tensor: use to_dense()")


def check_agreement(a: torch.Tensor, *others: torch.Tensor | None) -> None:
    """Raise unless all tensors have the dtype and the device of `a`; `others` are b, bias, c and out, in this order."""
    dtype, device = a.dtype, a.device
    for i, tensor in enumerate(others):
        if tensor is not None and (tensor.dtype != dtype or tensor.device != device):
            name = ("b", "bias", "c", "out")[i]
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device} and must be as a: {dtype} on {device}; nothing is cast here"
            )


def check_out(out: object, shape: Sequence[Any], a: torch.Tensor, inputs: Sequence[object]) -> None:
    """Raise unless `out` can take the result: no autograd through it, of the result's shape, dtype and device."""
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"out must be a torch.Tensor, was {type(out).__name__}")
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"out has shape {tuple(out.shape)} and must have the output's shape {tuple(shape)}")
    check_agreement(a, None, None, None, out)
    tensors = [x for x in (*inputs, out) if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise RuntimeError("out was given, but an argument requires grad: nothing is differentiated through out")


def expanded(c: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    """`c` broadcast to the output's shape."""
    try:
        return c.expand(tuple(shape))
    except RuntimeError:
        raise ValueError(
            f"c of shape {tuple(c.shape)} does not broadcast to the output's shape {tuple(shape)}"
        ) from None
