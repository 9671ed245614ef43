"""The K=1 matmul of RoPE: cos and sin for 4096 positions. On CPU; the fuser is Inductor, by "torchcompile" or alone."""

import functools
from collections.abc import Iterator

import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from benchmarks.comparison import EAGER, OURS, Comparison
from thunder_gemm_ex.cli._check import Step
from thunder_gemm_ex.programs.mistral_rope import cos_sin, cos_sin_inputs

TARGETS = {"Thunder": 2.5, "Thunder + torchcompile": 1.2, "torch.compile": 1.05}


def suite(device: str) -> Iterator[Comparison]:
    """One comparison of five."""
    programs = {
        EAGER: cos_sin,
        "Thunder": thunder.jit(cos_sin),
        "Thunder + torchcompile": thunder.jit(cos_sin, executors=[torch_compile_ex]),
        "torch.compile": torch.compile(cos_sin),
        OURS: thunder.jit(cos_sin, executors=[gx.gemm_ex, torch_compile_ex]),
    }
    step = Step.of(cos_sin, cos_sin_inputs(device))
    candidates = {name: functools.partial(step.run, program) for name, program in programs.items()}
    yield Comparison(
        "RoPE cos/sin, 4096 positions", "inv_freq[64], position_ids[1, 4096]", candidates, TARGETS, rounds=200
    )
