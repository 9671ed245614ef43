"""The C++ engine over the host double: real descriptors, products in host memory."""

import importlib.util

import pytest
import torch

from tests.double.build import Double, build, real_library
from thunder_gemm_ex.engines import cublaslt


@pytest.fixture(scope="session")
def double_library(tmp_path_factory):
    """The double, compiled once a session."""
    return Double(build(tmp_path_factory.mktemp("double")))


@pytest.fixture
def double(double_library):
    """The double in place of cublasLt, with clean counters."""
    double_library.reset()
    with cublaslt.use_library(str(real_library()), str(double_library.path)):
        yield double_library
    double_library.reset()


@pytest.fixture
def fresh_double(double_library, tmp_path):
    """A copy of the double, a library of its own that is asked anew for version and devices; open it with `opened()`."""
    import shutil

    copy = Double(shutil.copy(double_library.path, tmp_path / "copy.so"))
    copy.reset()
    copy.opened = lambda: cublaslt.use_library(str(real_library()), str(copy.path))
    yield copy
    copy.reset()


@pytest.fixture
def xy():
    """Operands of "m k, k n -> m n"."""
    return torch.randn(5, 7), torch.randn(7, 6)


def pytest_collection_modifyitems(items):
    """These tests need the extension and the nvidia wheels: both belong to the test environment, so nothing is skipped."""
    assert importlib.util.find_spec("nvidia.cublas") is not None, "pip install '.[test]' brings nvidia-cublas-cu12"
