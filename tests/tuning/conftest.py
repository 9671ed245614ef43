"""Tuning over the host double, with a cache directory of the test's own."""

import pytest
import torch

from tests.cublaslt.conftest import double, double_library  # noqa: F401  (fixtures)
from thunder_gemm_ex.engines import choose, cublaslt_calls
from thunder_gemm_ex.tuning.tune import forget_tuned


def aligned(tensor):
    """The tensor's values in memory that starts on 512 bytes."""
    memory = torch.empty(tensor.numel() * tensor.element_size() + 512, dtype=torch.uint8)
    first = -memory.data_ptr() % 512
    inside = memory[first : first + tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
    return inside.copy_(tensor)


def _aligned_output(size, stride, dtype):
    return aligned(torch.empty_strided(size, stride, dtype=dtype))


@pytest.fixture
def everywhere(double, tmp_path, monkeypatch):  # noqa: F811
    """The cublaslt engine takes CPU tensors; nothing that is tuned outlives the test."""
    monkeypatch.setenv("THUNDER_GEMM_EX_CACHE", str(tmp_path / "cache"))
    # On CUDA all of torch's memory is aligned to 512 bytes; on CPU to 64, which makes plans of one problem differ.
    monkeypatch.setattr(cublaslt_calls, "new_output", lambda a, shape: aligned(a.new_empty(shape)))
    monkeypatch.setattr(cublaslt_calls, "_empty_cpu", _aligned_output)
    with choose.everywhere():
        yield double
        forget_tuned()
