"""What a call computes besides the bare product."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

# What computes a contraction: called with (a, b, bias, c, alpha, beta), those after b optional.
Compute = Callable[..., torch.Tensor]
# For reports: engine, what it does, why not cuBLASLt or "", strides of a, of b.
Told = tuple[str, str, str, tuple[int, ...], tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Terms:
    """Which terms besides the product a call has: D = alpha * a b + beta * c + bias.

    With `scaled_bias` it is the bias that beta scales: D = alpha * a b + beta * bias. `numerics` is how its sums may be
    rounded: one of `numerics.MODES`.
    """

    alpha: bool = False
    c: bool = False
    bias: bool = False
    scaled_bias: bool = False
    numerics: str = "torch"

    @property
    def any(self) -> bool:
        """Whether there is more to compute than the bare product."""
        return self.alpha or self.c or self.bias

    @property
    def plain(self) -> bool:
        """Whether it is the bare product, rounded as torch's flags say."""
        return not self.any and self.numerics == "torch"
