"""What a compiled program costs beside time: operations in its traces, layout copies, peak memory, bytes saved.

All four are counts: they do not vary from run to run, so that two executors are compared exactly.
"""

import contextlib
import gc
import warnings
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from tests.checks import flat
from tests.programs.traces import final_traces
from thunder_gemm_ex.cli._traces import BOOKKEEPING


class Costs(NamedTuple):
    """Of one forward and backward. `peak` and `saved` in bytes."""

    operations: int
    copies: int
    peak: int
    saved: int


def costs(compiled, inputs) -> Costs:
    """The costs of `compiled(*inputs)`, which has been called before, and of its backward."""
    return Costs(operations(compiled), *copies_and_peak(compiled, inputs), saved_bytes(compiled, inputs))


def operations(compiled) -> int:
    """Lines of the final traces, forward and backward, that compute something."""
    return sum(b.sym.name not in BOOKKEEPING for trace in final_traces(compiled) for b in trace.bound_symbols)


def run(compiled, inputs) -> list[torch.Tensor]:
    """One forward and backward; the gradients of the inputs and parameters are dropped again. Returns the outputs."""
    outputs = flat(compiled(*inputs))
    wanted = [o for o in outputs if o.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(o) for o in wanted])
    return outputs


def forget_gradients(compiled, inputs) -> None:
    """Leave the parameters and inputs without gradients."""
    for leaf in (*parameters_of(compiled), *inputs):
        leaf.grad = None


def parameters_of(compiled) -> list[torch.nn.Parameter]:
    """The parameters of a module, compiled by either door or not at all; none of a function."""
    module = getattr(compiled, "_func", compiled)  # thunderfx keeps what Dynamo compiled there
    return list(module.parameters()) if isinstance(module, torch.nn.Module) else []


def copies_and_peak(compiled, inputs) -> tuple[int, int]:
    """Layout copies, and the most bytes that were allocated at once beyond those before the call, as torch counts them.

    Every copy of a tensor, by whatever name, ends in `aten::copy_`, also one inside of a product. One that a cast
    makes is no layout copy, nor is the term of an addmm, which BLAS reads from its output, nor a single element.
    """
    forget_gradients(compiled, inputs)
    gc.collect()
    with quiet(), profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as profiled:
        run(compiled, inputs)
    forget_gradients(compiled, inputs)
    copies = sum(map(_is_layout_copy, profiled.events()))
    return copies, _peak(profiled)


_NO_LAYOUT = {"aten::_to_copy", "aten::addmm", "aten::baddbmm"}


def _is_layout_copy(event) -> bool:
    made_by = None if event.cpu_parent is None else event.cpu_parent.name
    size = torch.Size(event.input_shapes[0]).numel() if event.input_shapes else 0
    return event.name == "aten::copy_" and made_by not in _NO_LAYOUT and size > 1


def _peak(profiled) -> int:
    memory = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(memory, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def saved_bytes(compiled, inputs) -> int:
    """Bytes of the distinct storages that the forward saves for the backward."""
    return sum({s.data_ptr(): s.nbytes() for s in saved_storages(compiled, inputs)}.values())


def saved_storages(compiled, inputs) -> list[torch.UntypedStorage]:
    """The storages of the tensors that the forward saves for the backward."""
    kept = []

    def pack(tensor):
        kept.append(tensor.untyped_storage())
        return tensor

    with quiet(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = compiled(*inputs)  # kept alive: a storage that is freed may be handed out again
    del outputs
    return kept


@contextlib.contextmanager
def quiet():
    """Without the warnings of profiler and autograd."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
