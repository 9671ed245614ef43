"""Operations with samples: PyTorch's op_db and Thunder's opinfos, in one form."""

import dataclasses
from collections.abc import Callable, Iterator

import torch
from thunder.core import dtypes as thunder_dtypes
from thunder.tests.opinfos import opinfos
from torch.testing._internal.common_methods_invocations import op_db

# Three dimensions of a convolution are one statement here, and one way to call it is enough.
CLAIMED = {"matmul", "__rmatmul__", "nn.functional.linear", "bmm", "mm", "mv", "dot", "vdot", "inner", "outer", "ger"}
CLAIMED |= {"addmm", "addmv", "addbmm", "baddbmm", "tensordot", "einsum", "linalg.multi_dot", "chain_matmul"}
CLAIMED |= {"nn.functional.bilinear", "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d"}
# What stays whole beside a matmul.
CLAIMED |= {"softmax", "nn.functional.softmin", "nn.functional.gelu", "nn.functional.relu", "nn.functional.silu"}
THUNDERS = {"matmul", "linear", "einsum", "outer", "baddbmm", "multi_dot", "softmax"}
DTYPES = [torch.float32, torch.bfloat16, torch.float64]
# Without a float64 beside them, and forward alone.
FURTHER = [torch.complex64, torch.int64]


@dataclasses.dataclass(frozen=True)
class Source:
    """`call` is what a program calls, `eager` its meaning; `samples(dtype)` and `errors()` give (args, kwargs)."""

    name: str
    call: Callable
    eager: Callable
    samples: Callable[[torch.dtype], Iterator[tuple[tuple, dict]]]
    errors: Callable[[], Iterator[tuple[tuple, dict]]]
    dtypes: frozenset[torch.dtype]


def _torchs(info) -> Source:
    def samples(dtype):
        for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
            yield (sample.input, *sample.args), sample.kwargs

    def errors():
        for error in info.error_inputs("cpu") if info.error_inputs_func else ():
            sample = error.sample_input
            yield (sample.input, *sample.args), sample.kwargs

    variant = f" {info.variant_test_name}" if info.variant_test_name else ""
    return Source(f"torch {info.name}{variant}", info.op, info.op, samples, errors, frozenset(info.dtypes))


def _thunders(info) -> Source:
    def samples(dtype):
        for sample in info.sample_inputs("cpu", thunder_dtypes.to_dtype(dtype), requires_grad=False):
            yield sample.args, sample.kwargs

    def errors():
        for error in info.error_inputs("cpu") if info.error_input_generator else ():
            yield error[0].args, error[0].kwargs

    supported = frozenset(map(thunder_dtypes.to_torch_dtype, info.dtypes()))
    # Its einsum leaves out what its own executors got wrong.
    supported |= {torch.bfloat16}
    return Source(f"thunder {info.name}", info.op, info.torch_reference, samples, errors, supported)


SOURCES = [_torchs(x) for x in op_db if x.name in CLAIMED] + [_thunders(x) for x in opinfos if x.name in THUNDERS]
