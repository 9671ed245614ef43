"""Every example program, forward and as a training step, against its peers."""

from collections.abc import Iterator

import torch

from benchmarks.comparison import EAGER, Comparison
from benchmarks.peers import candidates
from thunder_gemm_ex.programs import NAMES, load

# Sizes other than the programs' own, so that a CPU runs a round in well under a second.
CPU_SIZES = {"neva_g23": {"scale": 32}, "mistral_rope": {"seq": 512}}
# Never slower than Thunder's default, nor than eager by more than what Thunder's prologue costs.
TARGETS = {EAGER: 0.98, "Thunder": 1.0}


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
    return Comparison(
        f"{name}, {'training step' if trained else 'forward'}",
        ", ".join(str(list(t.shape)) for t in inputs),
        candidates(program, inputs),
        TARGETS,
        rounds=25,
    )
