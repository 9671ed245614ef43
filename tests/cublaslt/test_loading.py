"""What the engine says where something is missing: never an exception from `status`, always a sentence."""

import functools
import sys
from pathlib import Path

import pytest
import torch

from thunder_gemm_ex.engines import cublaslt


@pytest.fixture
def unloaded(monkeypatch):
    """As if nothing had been looked for yet."""
    for name in ("_load", "_open"):
        monkeypatch.setattr(cublaslt, name, functools.cache(getattr(cublaslt, name).__wrapped__))
    return monkeypatch


def test_without_the_extension(unloaded, tmp_path):
    unloaded.setattr(cublaslt, "_EXTENSION", tmp_path / "_lt.so")
    status = cublaslt.status()
    assert (status["loaded"], status["usable"], status["library"], status["path"]) == (False, False, None, None)
    assert status["missing"][0] == status["reason"] == "the package was built without its extension (_lt.so is missing)"
    with pytest.raises(RuntimeError, match="built without its extension"):
        cublaslt.bind([[0]], [[0]], None, [], [2])


def test_without_tvm_ffi(unloaded):
    unloaded.setitem(sys.modules, "tvm_ffi", None)
    status = cublaslt.status()
    assert not status["loaded"]
    assert "did not load" in status["reason"]


def test_with_an_extension_that_is_none(unloaded, tmp_path):
    broken = tmp_path / "_lt.so"
    broken.write_bytes(b"not a shared object")
    unloaded.setattr(cublaslt, "_EXTENSION", broken)
    assert "did not load" in cublaslt.status()["reason"]


class NoLibrary:
    """An extension in a process that has loaded no cublasLt."""

    def __init__(self, wheel_opens=False):
        self.wheel_opens = wheel_opens

    def open_library(self, path, override):
        if not (path and self.wheel_opens):
            raise RuntimeError("this process has no libcublasLt.so.13 or .so.12 loaded.")

    def library_info(self):
        return '{"path": "/wheel", "version": 120804, "device_guard": false, "pointer_array_batches": false}'


def test_without_any_cublaslt(unloaded):
    unloaded.setattr(cublaslt, "_load", lambda: (NoLibrary(), None))
    unloaded.setattr(cublaslt, "_wheel_library", lambda: None)
    status = cublaslt.status()
    assert (status["loaded"], status["usable"], status["library"]) == (True, False, None)
    assert "pip install 'thunder-gemm-ex[cu12]'" in status["missing"][0]


def test_the_wheels_library_is_second_choice_and_needs_a_runtime(unloaded):
    unloaded.setattr(cublaslt, "_load", lambda: (NoLibrary(wheel_opens=True), None))
    unloaded.setattr(cublaslt, "_wheel_library", lambda: "/wheel")
    status = cublaslt.status()
    assert (status["origin"], status["library"]) == ("the nvidia-cublas-cu12 wheel", "/wheel")
    assert "CUDA runtime" in status["missing"][0]
    assert not status["usable"]


def test_the_wheel_of_the_test_environment_is_found():
    assert Path(cublaslt._wheel_library()).name == "libcublasLt.so.12"


def test_usable_means_nothing_is_missing():
    status = cublaslt.status()
    assert status["usable"] == (not status["missing"]) == torch.cuda.is_available()
    assert status["loaded"]
    assert status["version"] >= 120000


def test_a_contraction_can_be_bound_before_anything_was_asked(unloaded):
    bound = cublaslt.bind([[0], [2]], [[2], [1]], None, [[0], [1]], [5, 6, 7])
    assert bound.explain(torch.ones(5, 7), torch.ones(7, 6), torch.ones(5, 6))["layout"] == "NN"
