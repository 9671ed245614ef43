"""A mixture of experts as two batched matmuls; each expert's weights are stored [out, in] and used transposed.

Next to the pointwise SiLU a fuser takes the transpose in and writes it out: all experts' weights, copied every step.
"""

import torch


def experts(x, w1, w2):
    """x: [e, tokens, d], w1: [e, f, d], w2: [e, d, f] -> [e, tokens, d]."""
    hidden = torch.nn.functional.silu(torch.bmm(x, w1.transpose(1, 2)))
    return torch.bmm(hidden, w2.mT)


def program(device="cpu", dtype=torch.float32):
    """The function `experts`."""
    return experts


def inputs(device="cpu", dtype=torch.float32, *, e=8, tokens=64, d=256, f=512, requires_grad=True):
    """(x[e, tokens, d], w1[e, f, d], w2[e, d, f])."""
    shapes = (e, tokens, d), (e, f, d), (e, d, f)
    return tuple(torch.randn(shape, device=device, dtype=dtype, requires_grad=requires_grad) for shape in shapes)
