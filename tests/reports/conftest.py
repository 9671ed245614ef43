"""Public reports as small inputs: each through a compiled program on both engines, the C++ one over the host double."""

import contextlib

import pytest

from tests.cublaslt.conftest import double, double_library  # noqa: F401  (fixtures)
from thunder_gemm_ex.engines import choose


@pytest.fixture(params=["aten", "cublaslt"])
def engine(request):
    """Each engine in turn: None for ATen, the double for cublaslt, which then takes CPU tensors too."""
    if request.param == "aten":
        yield None
        return
    found = request.getfixturevalue("double")
    with choose.everywhere():
        yield found


@pytest.fixture
def recorded(double):  # noqa: F811
    """The cublaslt engine for CPU tensors, computing nothing: for memory that is never touched."""
    double.lib.double_no_op(2)
    with choose.everywhere(), contextlib.ExitStack() as stack:
        stack.callback(double.lib.double_no_op, 0)
        yield double
