"""Compiles the host double and drives its counters and faults."""

import ctypes
import importlib.util
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("double.cc")
ENTRIES = ("create", "destroy", "heuristic", "check", "matmul", "copy")
PROBLEM = ("rows", "cols", "k", "batch", "trans_a", "trans_b", "lda", "ldb", "ldd", "epilogue", "device", "workspace")
PROBLEM += ("compute", "reductions", "align_a", "algo", "stream", "workspace_at", "type_a", "type_d")
PROBLEM += ("fast_accumulate", "pointers", "rank")
COMPUTE_32F, COMPUTE_TF32, COMPUTE_64F = 68, 77, 70
INTERNAL_ERROR, NOT_SUPPORTED, INVALID_VALUE, EXECUTION_FAILED, ALLOC_FAILED = 14, 15, 7, 13, 3


def nvidia() -> Path:
    """The folder of the nvidia wheels, which the `test` extra brings."""
    return Path(importlib.util.find_spec("nvidia.cublas").submodule_search_locations[0]).parent


def real_library() -> Path:
    """The real cublasLt, whose descriptors the double reads."""
    return nvidia() / "cublas" / "lib" / "libcublasLt.so.12"


def cuda_includes() -> list[str]:
    """Compiler flags for the headers of the nvidia wheels."""
    parts = ("cublas", "cuda_runtime", "cuda_nvcc", "cuda_cccl")
    return [f for part in parts for f in ("-isystem", str(nvidia() / part / "include"))]


def build(folder: Path, *extra: str) -> Path:
    """Compile into `folder`, with `extra` flags; raises CalledProcessError with the compiler's words on stderr."""
    target = folder / "libcublaslt_double.so"
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", *extra]
    subprocess.run(["g++", *flags, *cuda_includes(), str(SOURCE), "-o", str(target), "-ldl", "-pthread"], check=True)
    return target


class Double:
    """The loaded double: what was called, and what shall go wrong next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lib = ctypes.CDLL(str(path))
        for name in ("calls", "device_switches", "most_inside", "remembered"):
            getattr(self.lib, f"double_{name}").restype = ctypes.c_int64
        for name in ("want_workspace", "version"):
            getattr(self.lib, f"double_{name}").argtypes = [ctypes.c_int64]
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
        return self.problems()[-1]

    def problems(self) -> list[dict[str, int]]:
        """Every problem since the last reset, oldest first (the last 4096 of them)."""
        values, found = (ctypes.c_int64 * len(PROBLEM))(), []
        for i in range(self.lib.double_remembered()):
            assert self.lib.double_problem(ctypes.c_int64(i), values)
            found.append(dict(zip(PROBLEM, values)))
        return found
