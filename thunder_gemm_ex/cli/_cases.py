"""The demo's cases: both seed programs, small enough for two CPU cores, at the full size where there is a GPU."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch

from thunder_gemm_ex.programs import mistral_rope, neva_g23


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its inputs, and the fuser that it is compiled with ("default" or "torchcompile")."""

    name: str
    sizes: str
    program: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    fuser: str


def has_compiler() -> bool:
    """Whether torch.compile has the C++ compiler that it needs for CPU code."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def cases(device: str) -> list[Case]:
    """What the demo runs on `device`, in order."""
    on_cpu = not device.startswith("cuda")
    # On CUDA the default executors bring a fuser, nvFuser; on CPU Thunder has none unless torchcompile is asked for.
    fuser = "torchcompile" if on_cpu and has_compiler() else "default"
    scale, seq = (32, 512) if on_cpu else (1, 4096)
    k, n = 13824 // scale, 5120 // scale
    return [
        Case(
            "neva_g23, forward and backward",
            f"x[384, 2, {k}] @ w[{n}, {k}].t(), bfloat16",
            neva_g23.program(device),
            neva_g23.inputs(device, scale=scale, requires_grad=True),
            "default",
        ),
        Case(
            "mistral_rope cos/sin, forward",
            "inv_freq[1, 64, 1] @ position[1, 1, 4096], float32",
            mistral_rope.cos_sin,
            mistral_rope.cos_sin_inputs(device, seq=4096),
            fuser,
        ),
        Case(
            "mistral_rope, forward and backward",
            f"q[1, {seq}, 4096], k, v[1, {seq}, 1024], bfloat16",
            mistral_rope.rope,
            mistral_rope.inputs(device, seq=seq, requires_grad=True),
            fuser,
        ),
    ]
