"""The host double, for what reports tell of the library's calls."""

from tests.cublaslt.conftest import double, double_library  # noqa: F401
