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

from thunder_gemm_ex.engines.numerics import (  # noqa: F401  (part of this face)
    FULL_REDUCTION,
    NO_SPLIT_K,
    TF32,
    flags_from_torch,
)

# What the extension computes of operands of one type; other types go to ATen. fp8 and int8: see `engines/operation.py`.
DTYPES = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
EPILOGUES = ("", "relu", "gelu", "relu_aux", "gelu_aux", "drelu", "dgelu", "bgrada", "bgradb")

_EXTENSION = Path(__file__).resolve().parent.parent / "_lt.so"
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Bound:
    """One contraction in the extension. The functions are the extension's own: arguments are positional, they release
    the GIL, raise ValueError for tensors that do not fit and RuntimeError when the library fails.

    run(a, b, out, bias, c, alpha, beta, flags) -> 0 when `out` = alpha * a b + beta * c + bias was written, 1 when declined
    and nothing was computed. bias and c may be None.
    plain(a, b, out, flags) -> the same for a product without terms; 2 when a, b and out are not of the shapes that were
    bound or not of one dtype and device, 3 when a or b may be a negative view (`is_neg`), whose bit it cannot see.
    full(a, b, out, bias, c, aux, scale_a, scale_b, alpha, beta, flags, algo) -> `run` with every term; `algo` is "" or one
    of `candidates`.
    """

    run: Callable[..., int]
    plain: Callable[..., int]
    full: Callable[..., int]
    _explain: Callable[..., str]
    _candidates: Callable[..., str]

    def explain(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        flags: int = 0,
        *,
        aux: torch.Tensor | None = None,
        scale_a: torch.Tensor | None = None,
        scale_b: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        """Sizes, flags and leading dimensions as cuBLAS is told them, and calls; or `declined` with the reason.

        Strides in elements, `workspace` in bytes, `cost` in launches (csrc/cost.h); `layout` is PyTorch's view, such as
        "NT". `copy` is there where copies of operands, with the strides it names, would cost less or make it possible.
        Computes nothing, so `out` need not be what a call will write to, only laid out like it.
        """
        plan: dict[str, Any] = json.loads(self._explain(a, b, out, bias, c, aux, scale_a, scale_b, flags))
        return plan

    def candidates(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        out: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        flags: int = 0,
        *,
        aux: torch.Tensor | None = None,
        scale_a: torch.Tensor | None = None,
        scale_b: torch.Tensor | None = None,
        count: int = 16,
    ) -> dict[str, Any]:
        """{"key": the plan's key as text, "candidates": [{"algo": text, "workspace": bytes}, ...]}, the heuristic's first.

        ValueError where the contraction is declined or takes several plans.
        """
        found: dict[str, Any] = json.loads(self._candidates(a, b, out, bias, c, aux, scale_a, scale_b, flags, count))
        return found


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


def is_built() -> bool:
    """Whether the extension is there and loads; a library or device may still be missing."""
    return _load()[0] is not None


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
    epilogue: str = "",
) -> Bound:
    """Bind a contraction: for each dimension of each tensor its atoms, indices into `sizes`, innermost last.

    `epilogue` is one of EPILOGUES. With "drelu" and "dgelu" a labelled bias is the gradient that is written: `out` summed
    over its other side; with "bgrada" and "bgradb" it is a or b summed over k. "relu_aux" and "gelu_aux" write, "drelu" and
    "dgelu" read `aux`, see `engines/operation.py`.
    """
    module = extension()
    with _lock:
        _open()
    lists = [None if dims is None else [list(dim) for dim in dims] for dims in (a, b, bias, out)]
    run, explain, plain, full, candidates = module.contraction(*lists, list(sizes), epilogue)
    return Bound(run, plain, full, explain, candidates)


def cache_stats() -> dict[str, int]:
    """hits, misses, evictions, size and capacity of the plan cache."""
    stats: dict[str, int] = json.loads(extension().cache_stats())
    return stats


def set_cache_capacity(plans: int) -> None:
    """Keep at most `plans` plans; those used longest ago go first. ValueError below 1."""
    extension().set_cache_capacity(plans)


def set_workspace_limit(size: int | None) -> None:
    """The most workspace in bytes that an algorithm may ask for, on every device.

    None: NVIDIA's advice, 32 MiB on Hopper and newer and 4 MiB before.
    """
    if size is not None and size < 0:
        raise ValueError(f"size must be None or a number of bytes from 0, was {size}")
    extension().set_workspace_bytes(-1 if size is None else size)


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
