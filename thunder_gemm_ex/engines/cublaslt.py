"""The cuBLASLt engine's thin face: loads the extension, finds the cublasLt that torch has loaded, binds contractions.

Everything about layouts, plans and calls is in csrc/. The extension knows no conj or neg bit: who calls `Bound.run` has
made sure that no operand has one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

# What the extension computes; other types go to ATen.
DTYPES = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})

# Bits of the flags that csrc/plan.h names.
TF32, FULL_REDUCTION, NO_SPLIT_K = 1, 2, 4

_EXTENSION = Path(__file__).resolve().parent.parent / "_lt.so"
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Bound:
    """One contraction in the extension.

    run(a, b, out, bias, c, alpha, beta, flags) -> 0 when `out` = alpha * a b + beta * c + bias was written, 1 when declined
    and nothing was computed. It is the extension's function itself: every argument is positional, bias and c may be None.
    Raises ValueError for tensors that do not fit, RuntimeError when the library fails. It releases the GIL.
    """

    run: Callable[..., int]
    _explain: Callable[..., str]

    def explain(self, a, b, out, bias=None, c=None, flags: int = 0) -> dict[str, Any]:
        """Sizes, flags and leading dimensions as cuBLAS is told them, and calls; or `declined` with the reason.

        Strides in elements, `workspace` in bytes; `layout` is PyTorch's view, such as "NT". Computes nothing, so `out` need
        not be what a call will write to, only laid out like it.
        """
        return json.loads(self._explain(a, b, out, bias, c, None, None, None, flags))


@functools.cache
def _load() -> tuple[Any, str | None]:
    """(the extension's module or None, why it is not loaded)."""
    if not _EXTENSION.is_file():
        return None, "the package was built without its extension (_lt.so is missing)"
    try:
        import tvm_ffi

        return tvm_ffi.load_module(str(_EXTENSION)), None
    except Exception as error:  # an ABI or loader fault must not break the import of the package
        return None, f"the extension did not load: {error}"


def extension() -> Any:
    """The loaded extension module. RuntimeError says why there is none."""
    module, reason = _load()
    if module is None:
        raise RuntimeError(reason)
    return module


@functools.cache
def _open() -> tuple[str | None, str | None]:
    """(where the opened cublasLt came from, why none is open). Torch's own first, then the wheel of the `cu12` extra."""
    module, reason = _load()
    if module is None:
        return None, reason
    errors = []
    for path, origin in (("", "loaded by torch"), (_wheel_library(), "the nvidia-cublas-cu12 wheel")):
        if path is None:
            continue
        try:
            module.open_library(path, "")
            return origin, None
        except RuntimeError as error:
            errors.append(str(error).splitlines()[0])
    return None, f"no cublasLt was found ({' '.join(errors)}); pip install 'thunder-gemm-ex[cu12]' brings one"


def _wheel_library() -> str | None:
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    found = (Path(root, "cublas", "lib", "libcublasLt.so.12") for root in roots)
    return next((str(path) for path in found if path.is_file()), None)


def status() -> dict[str, Any]:
    """What was found, for `doctor` and reports: loaded, reason, path, library, origin, version, usable, missing."""
    module, reason = _load()
    with _lock:
        origin, problem = _open()
    info = json.loads(module.library_info()) if origin else {}
    missing = [problem] if problem else []
    if origin and not info["device_guard"]:
        missing.append("the CUDA runtime that goes with this cublasLt is not loaded, so no device can be made current")
    if not torch.cuda.is_available():
        missing.append("torch finds no CUDA device (no GPU, or no driver)")
    return {
        "loaded": module is not None,
        "reason": reason,
        "path": str(_EXTENSION) if module is not None else None,
        "library": info.get("path"),
        "origin": origin,
        "version": info.get("version"),
        "pointer_array_batches": info.get("pointer_array_batches"),
        "usable": not missing,
        "missing": missing,
    }


def bind(
    a: Sequence[Sequence[int]],
    b: Sequence[Sequence[int]],
    bias: Sequence[Sequence[int]] | None,
    out: Sequence[Sequence[int]],
    sizes: Sequence[int],
) -> Bound:
    """Bind a contraction: for each dimension of each tensor its atoms, indices into `sizes`, innermost last."""
    module = extension()
    with _lock:
        _open()
    lists = [None if dims is None else [list(dim) for dim in dims] for dims in (a, b, bias, out)]
    run, explain, *_ = module.contraction(*lists, list(sizes), "")
    return Bound(run, explain)


def cache_stats() -> dict[str, int]:
    """hits, misses, evictions, size and capacity of the plan cache."""
    return json.loads(extension().cache_stats())


def flags_from_torch(dtype: torch.dtype) -> int:
    """torch's numerics flags as they stand now, for a product in `dtype`.

    TF32 is read where both the old and the new torch API keep it; split-K partial sums in 16 bits are allowed only where
    torch allows them.
    """
    if dtype is torch.float32:
        return TF32 if _tf32_allowed() else 0
    if dtype is torch.float16:
        return _reductions(torch._C._get_cublas_allow_fp16_reduced_precision_reduction())
    if dtype is torch.bfloat16:
        return _reductions(torch._C._get_cublas_allow_bf16_reduced_precision_reduction())
    return 0


def _reductions(allowed: bool | tuple[bool, bool]) -> int:
    # Newer torch answers with (16-bit partial sums, split-K at all), older with the first alone.
    partial, split_k = allowed if isinstance(allowed, tuple) else (allowed, True)
    return (0 if partial else FULL_REDUCTION) | (0 if split_k else NO_SPLIT_K)


def _tf32_allowed() -> bool:
    # Once the new API was used the old getter raises; the new one answers for both.
    return torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32"


@contextlib.contextmanager
def use_library(path: str = "", override: str = "") -> Iterator[Any]:
    """Within this block calls go to the cublasLt at `path` ("": what torch has loaded), `override`'s symbols first.

    For tests: a library that computes in host memory overrides the entry points that need a device.
    """
    module = extension()
    with _lock:
        _open()
        before = json.loads(module.library_info())
        module.open_library(path, override)
        module.cache_clear()
    try:
        yield module
    finally:
        with _lock:
            if before:
                module.open_library("" if _open()[0] == "loaded by torch" else before["path"], before["override"])
            module.cache_clear()
