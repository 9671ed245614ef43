"""The ways of running one program that are compared in every suite."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from benchmarks.comparison import EAGER, OURS
from thunder_gemm_ex.cli._check import Step

FUSED = f"{OURS} + torchcompile"


def candidates(program: Callable, inputs: Sequence[torch.Tensor]) -> dict[str, Callable[[], list[torch.Tensor]]]:
    """Eager, Thunder's default, Thunder with torchcompile, torch.compile, ours, and ours with torchcompile.

    Each runs the program forward, and backward where an input or parameter wants a gradient.
    """
    step = Step.of(program, inputs)
    defaults = thunder.get_default_executors()
    ways = {
        EAGER: program,
        "Thunder": thunder.jit(program),
        "Thunder + torchcompile": thunder.jit(program, executors=[torch_compile_ex, *defaults]),
        "torch.compile": torch.compile(program, **_thorough(inputs[0])),
        OURS: thunder.jit(program, executors=gx.executors()),
        FUSED: thunder.jit(program, executors=[gx.gemm_ex, torch_compile_ex, *defaults]),
    }
    return {name: functools.partial(step.run, way) for name, way in ways.items()}


def _thorough(x: torch.Tensor) -> dict[str, str]:
    """On a GPU torch.compile may time ATen's kernels against Triton's, as those who care have it do."""
    return {"mode": "max-autotune-no-cudagraphs"} if x.is_cuda else {}
