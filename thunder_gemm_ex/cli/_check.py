"""Running a program, forward and backward, and comparing it with eager PyTorch."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Step:
    """What is run: a forward pass, and where `cotangents` are given the backward pass to `leaves`.

    Attributes:
        inputs: the program's arguments.
        leaves: the tensors whose gradients are wanted.
        cotangents: one for each output, None for an output without gradient; None altogether: forward only.
    """

    inputs: Sequence[torch.Tensor]
    leaves: Sequence[torch.Tensor]
    cotangents: Sequence[torch.Tensor | None] | None

    @classmethod
    def of(cls, program: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> "Step":
        """A training step where any input or parameter wants a gradient, else a forward pass.

        Cotangents are random and contiguous whatever the outputs' strides are: `randn_like` would fill in memory order.
        """
        parameters = program.parameters() if isinstance(program, torch.nn.Module) else ()
        leaves = [t for t in (*inputs, *parameters) if t.requires_grad]
        if not leaves:
            return cls(inputs, leaves, None)
        outputs = flat(program(*inputs))
        pulls = [torch.randn(t.shape, dtype=t.dtype, device=t.device) if t.requires_grad else None for t in outputs]
        return cls(inputs, leaves, pulls)

    def run(self, program: Callable[..., Any]) -> list[torch.Tensor]:
        """The outputs, then the leaves' gradients. `program` may be a compiled form of the one given to `of`."""
        outputs = flat(program(*self.inputs))
        if self.cotangents is None:
            return outputs
        # By position: Thunder marks outputs as differentiable that eager doesn't.
        pulled, pulls = zip(*[(t, c) for t, c in zip(outputs, self.cotangents) if c is not None])
        return outputs + list(torch.autograd.grad(pulled, self.leaves, pulls))


def flat(outputs: Any) -> list[torch.Tensor]:
    """A tensor or a tuple of tensors as a list."""
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def worst_error(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> float:
    """The largest difference over all tensors, each relative to its largest value; infinite where a shape differs."""
    if [t.shape for t in got] != [t.shape for t in want]:
        return float("inf")
    return max((relative_error(a, b) for a, b in zip(got, want)), default=0.0)


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """max |got - want| / max |want| in float64; NaN counts as infinite."""
    if got.numel() == 0:
        return 0.0
    got, want = got.detach().double(), want.detach().double()
    error = ((got - want).abs().max() / want.abs().max().clamp_min(1e-30)).item()
    return error if error == error else float("inf")


def tolerance(tensors: Sequence[torch.Tensor]) -> float:
    """What two correct computations may differ by: a few roundings of the coarsest dtype, sums taken in any order."""
    return max(max(4 * torch.finfo(t.dtype).eps, 1e-5) for t in tensors if t.is_floating_point())
