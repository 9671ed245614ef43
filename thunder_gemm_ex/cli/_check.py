"""Running a program, forward and backward, and comparing it with eager PyTorch."""

from collections.abc import Callable, Sequence

import torch


def step(program: Callable, inputs: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor | None] | None):
    """The program's outputs and, given cotangents, the gradients of all inputs that want one: one flat list.

    Args:
        cotangents: from `cotangents_for`; one for each output, None for an output without gradient.
    """
    outputs = flat(program(*inputs))
    if cotangents is None:
        return outputs
    leaves = [t for t in inputs if t.requires_grad]
    # By position: Thunder marks outputs as differentiable that eager doesn't.
    pulled, pulls = zip(*[(t, c) for t, c in zip(outputs, cotangents) if c is not None])
    return outputs + list(torch.autograd.grad(pulled, leaves, pulls))


def cotangents_for(program: Callable, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None] | None:
    """A fixed random cotangent for each of eager's differentiable outputs; None where nothing wants a gradient.

    They are contiguous whatever the outputs' strides are: `randn_like` would fill in memory order.
    """
    outputs = flat(program(*inputs))
    if not any(t.requires_grad for t in outputs):
        return None
    return [torch.randn(t.shape, dtype=t.dtype, device=t.device) if t.requires_grad else None for t in outputs]


def flat(outputs) -> list[torch.Tensor]:
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
    """What two correct computations may differ by: a few roundings of the coarsest dtype among the tensors."""
    return max(4 * torch.finfo(t.dtype).eps for t in tensors if t.is_floating_point())
