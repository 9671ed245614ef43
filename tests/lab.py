"""The lab: final traces for CUDA, nvFuser's regions included, on a machine that may have no GPU.

nvFuser's Thunder executor registers when CUDA is available while `thunder` is first imported, and its partitioner is
plain Python; so the one import below happens under a pretence. nvFuser takes CUDA tensors only, hence CPU tests in the
same process see what they would see without it. Programs get FakeTensors and are compiled, never called: compiling a
region is what would need a driver.

    forward, backward = final_traces(f, lambda device: (torch.randn(4, 8, device=device),), executors=gx.executors())
    assert names(forward) == ["gemm"]
"""

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


@contextlib.contextmanager
def pretend_cuda(capability: tuple[int, int] = (9, 0)):
    """Within this block torch claims one CUDA device of that capability. Import in it, run nothing in it."""
    real = torch.cuda.is_available, torch.cuda.get_device_capability
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda *args, **kwargs: capability
    try:
        yield
    finally:
        torch.cuda.is_available, torch.cuda.get_device_capability = real


with pretend_cuda():
    import thunder

from thunder_gemm_ex.cli._traces import BOOKKEEPING  # noqa: E402  (imports thunder, so it has to come second)

NVFUSER_INSTALLED = any(importlib.util.find_spec(name) for name in ("nvfuser_direct", "nvfuser"))
NVFUSER_REGISTERED = thunder.extend.get_executor("nvfuser") is not None
needs_nvfuser = pytest.mark.skipif(not NVFUSER_INSTALLED, reason="nvFuser has no wheel for this Python and torch")

# All inputs and parameters belong to this mode; tensors of two modes don't mix.
FAKE = FakeTensorMode()


class Line(NamedTuple):
    """One computation of a trace: the symbol's name, its printed form, and the names of all symbols inside it."""

    name: str
    text: str
    inside: tuple[str, ...]


class Traces(NamedTuple):
    """Final traces. `backward` is empty where nothing requires a gradient."""

    forward: list[Line]
    backward: list[Line]


def names(lines: Sequence[Line]) -> list[str]:
    """The symbols' names, in order."""
    return [line.name for line in lines]


def fake(make: Callable, device: str = "cuda:0", **options) -> Any:
    """`make(device=device, **options)` with FakeTensors in place of tensors; no memory is allocated."""
    with FAKE:
        return make(device=device, **options)


def final_traces(fn, make_inputs: Callable, executors=None, *, device: str = "cuda:0", **jit_options) -> Traces:
    """Compiles `fn(*make_inputs(device=device))` without running it.

    Args:
        fn: a function, or a module whose parameters come from `fake` with the same device.
        make_inputs: called with `device=`; returns the tuple of arguments.
        executors: None means Thunder's defaults, nvFuser among them.
        jit_options: whatever else `thunder.jit` takes.
    """
    jfn = thunder.jit(fn, executors=executors, **jit_options)
    thunder.compile_data(jfn).get_computation_and_inputs(*fake(make_inputs, device))
    backward = thunder.last_backward_traces(jfn)
    return Traces(computations(thunder.last_traces(jfn)[-1]), computations(backward[-1]) if backward else [])


def computations(trace) -> list[Line]:
    """The lines of one trace that compute something."""
    return [
        Line(bsym.sym.name, bsym.python(0, print_depth=1)[-1].strip(), tuple(inner_names(bsym)))
        for bsym in trace.bound_symbols
        if bsym.sym.name not in BOOKKEEPING
    ]


def inner_names(bsym):
    """Names of the symbols that `bsym` is made of, all the way down."""
    for inner in bsym.subsymbols:
        yield inner.sym.name
        yield from inner_names(inner)
