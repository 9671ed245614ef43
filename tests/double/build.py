"""Compiles the host double and drives its counters and faults."""

import ctypes
import importlib.util
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("double.cc")
ENTRIES = ("create", "destroy", "heuristic", "check", "matmul")
PROBLEM = ("rows", "cols", "k", "batch", "trans_a", "trans_b", "lda", "ldb", "ldd", "epilogue", "device", "workspace")
PROBLEM += ("compute", "reductions", "align_a")
COMPUTE_32F, COMPUTE_TF32, COMPUTE_64F = 68, 77, 70
INTERNAL_ERROR, NOT_SUPPORTED, INVALID_VALUE, EXECUTION_FAILED, ALLOC_FAILED = 14, 15, 7, 13, 3


def nvidia() -> Path:
    """The folder of the nvidia wheels, which the `test` extra brings."""
    return Path(importlib.util.find_spec("nvidia.cublas").submodule_search_locations[0]).parent


def real_library() -> Path:
    """The real cublasLt, whose descriptors the double reads."""
    return nvidia() / "cublas" / "lib" / "libcublasLt.so.12"


def build(folder: Path) -> Path:
    """Compile into `folder`; raises CalledProcessError with the compiler's words on stderr."""
    target = folder / "libcublaslt_double.so"
    parts = ("cublas", "cuda_runtime", "cuda_nvcc", "cuda_cccl")
    includes = [f for part in parts for f in ("-isystem", str(nvidia() / part / "include"))]
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    subprocess.run(["g++", *flags, *includes, str(SOURCE), "-o", str(target), "-ldl", "-pthread"], check=True)
    return target


class Double:
    """The loaded double: what was called, and what shall go wrong next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lib = ctypes.CDLL(str(path))
        self.lib.double_calls.restype = ctypes.c_int64
        self.lib.double_device_switches.restype = ctypes.c_int64
        self.lib.double_want_workspace.argtypes = [ctypes.c_int64]
        assert self.lib.double_use(str(real_library()).encode())

    def calls(self, entry: str = "matmul") -> int:
        """How often an entry point was called since the last reset."""
        return self.lib.double_calls(ENTRIES.index(entry))

    def reset(self) -> None:
        """Counters to zero, faults and settings off."""
        self.lib.double_reset()

    def fail_next(self, entry: str, status: int) -> None:
        """Let the next call of an entry point return a status."""
        self.lib.double_fail(ENTRIES.index(entry), status)

    def last(self) -> dict[str, int]:
        """The last problem that was computed, in cuBLAS's column-major terms."""
        values = (ctypes.c_int64 * len(PROBLEM))()
        self.lib.double_last(values)
        return dict(zip(PROBLEM, values))
