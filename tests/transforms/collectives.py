"""Programs that call torch.distributed between their matmuls; the processes of test_distributed run them."""

import torch
import torch.distributed as dist

from tests.checks import flat, jit, specs


def _summed(y):
    dist.all_reduce(y, group=dist.group.WORLD)


def _in_place(x, w, v):
    y = x @ w.t()
    _summed(y)
    return y.t() @ v


def _a_view_from_before(x, w, v):
    y = x @ w.t()
    seen = y.t()
    _summed(y)
    return seen @ v


def _a_copy_from_before(x, w, v):
    y = x @ w.t()
    copied = y.t().reshape(6, 10)
    _summed(y)
    return copied.t() @ v[:6], y.t() @ v


def _an_input(x, w, v):
    seen, copied = w.t(), w.t().reshape(2, 10)
    _summed(w)
    return x @ seen, copied @ v[:10]


def _functional(x, w, v):
    y = torch.ops._c10d_functional.all_reduce(x @ w.t(), "sum", dist.group.WORLD.group_name)
    return torch.ops._c10d_functional.wait_tensor(y).t() @ v


def _gathered(x, w, v):
    whole = torch.empty(10, 4, dtype=w.dtype)
    dist.all_gather_into_tensor(whole, w, group=dist.group.WORLD)
    return x @ whole.t()


# By name: a program, and how many of its two matmuls fold something: not past what is written to.
PROGRAMS = {
    "summed in place": (_in_place, 1),
    "a view from before the sum": (_a_view_from_before, 1),
    "a copy from before the sum": (_a_copy_from_before, 1),
    "a summed input": (_an_input, 0),
    "summed into another": (_functional, 2),
    "gathered": (_gathered, 0),
}


def work(rank, name):
    """What eager computes on this rank, what the compiled program does, and its specs."""
    fn, _ = PROGRAMS[name]
    made = []
    jfn = jit(fn)
    for call, dtype in ((jfn, torch.float32), (fn, torch.float32), (fn, torch.float64)):
        generator = torch.Generator().manual_seed(rank)
        operands = [torch.randn(shape, generator=generator).to(dtype) for shape in ((12, 4), (5, 4), (12, 7))]
        made.append([*flat(call(*operands)), operands[1]])
    return {"results": made, "specs": specs(jfn)}
