"""Every example program, forward and as a training step: ours against Thunder's default executors and eager."""

import functools
from collections.abc import Iterator

import thunder
import torch

import thunder_gemm_ex as gx
from benchmarks.comparison import EAGER, OURS, Comparison
from thunder_gemm_ex.cli._check import Step
from thunder_gemm_ex.programs import NAMES, load

# Sizes other than the programs' own, so that a CPU runs a round in well under a second.
CPU_SIZES = {"neva_g23": {"scale": 32}, "mistral_rope": {"seq": 512}}
# Not slower than Thunder's default by more than 2 %.
TARGETS = {"Thunder": 0.98}


def suite(device: str) -> Iterator[Comparison]:
    """Two comparisons for each program."""
    for name in NAMES:
        for trained in (False, True):
            yield comparison(name, device, trained)


def comparison(name: str, device: str, trained: bool) -> Comparison:
    """One program, its inputs and parameters wanting gradients or not."""
    module = load(name)
    program = module.program(device)
    if isinstance(program, torch.nn.Module) and not trained:
        program.requires_grad_(False)
    sizes = CPU_SIZES.get(name, {}) if device == "cpu" else {}
    inputs = module.inputs(device, **sizes, requires_grad=trained)
    step = Step.of(program, inputs)
    programs = {EAGER: program, "Thunder": thunder.jit(program), OURS: thunder.jit(program, executors=gx.executors())}
    return Comparison(
        f"{name}, {'training step' if trained else 'forward'}",
        ", ".join(str(list(t.shape)) for t in inputs),
        {name: functools.partial(step.run, program) for name, program in programs.items()},
        TARGETS,
    )
