"""The inputs of a random program: shape, dtype, how they lie in memory, and which of them are the same memory."""

import dataclasses

import torch

# "expanded" has a dimension of stride 0, in "overlapping" the last two run over the same elements, as in an unfold.
LAYOUTS = ["plain", "transposed", "padded", "expanded", "overlapping", "alias"]


@dataclasses.dataclass
class Input:
    """A leaf of the program; an "alias" is the memory of the input `of`, transposed if the shapes say so."""

    shape: tuple
    layout: str
    grad: bool
    dtype: str = "float64"
    of: int | None = None

    def make(self, generator, before, exact=False):
        """The tensor, drawn from the generator in logical order; `exact` is the same values in float64."""
        if self.layout == "alias":
            base = before[self.of].detach()
            values = base if base.shape == self.shape else base.mT
        else:
            values = _laid_out(self.layout, self._values(generator, exact))
        return values.requires_grad_(self.grad)

    def _values(self, generator, exact):
        values = torch.randn(self.shape, generator=generator, dtype=torch.float64).to(getattr(torch, self.dtype))
        return values.double() if exact else values


def made(inputs, seed, exact=False):
    """The inputs as tensors drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for x in inputs:
        found.append(x.make(generator, found, exact))
    return found


def aliases(shape, dtype, inputs):
    """The inputs that another one of the shape may be the memory of."""
    ways = {shape, (*shape[:-2], *shape[:-3:-1])}
    return [i for i, x in enumerate(inputs) if x.shape in ways and x.dtype == dtype]


def _laid_out(layout, values):
    shape = values.shape
    if layout == "transposed" and values.ndim > 1:
        return values.mT.contiguous().mT
    if layout == "padded" and values.ndim:
        wide = torch.zeros(*shape[:-1], shape[-1] + 3, dtype=values.dtype)
        return wide.narrow(-1, 1, shape[-1]).copy_(values)
    if layout == "expanded" and values.ndim:
        # The largest dimension: one of size 1 would be no overlap.
        d = max(range(values.ndim), key=lambda i: shape[i])
        return values.narrow(d, 0, 1).contiguous().expand(shape)
    if layout == "overlapping" and values.ndim > 1:
        rows, columns = shape[-2:]
        band = torch.cat([values[..., 0], values[..., -1, 1:]], -1).contiguous()
        return band.as_strided(shape, (*band.stride()[:-1], 1, 1)) if rows and columns else values
    return values
