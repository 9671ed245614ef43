"""Memory of a training step: the most bytes at once beyond those before it, and the bytes kept for the backward.

Both are counts that do not vary from run to run on a CPU: a ratio has no interval.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator

import thunder
import torch

import thunder_gemm_ex as gx
from benchmarks import attention, blocks, programs
from benchmarks.comparison import EAGER, OURS
from thunder_gemm_ex.cli._check import Step, tolerance, worst_error
from thunder_gemm_ex.programs import NAMES, load

# Never more than Thunder's default. Eager may need less: it has kernels whose gradients Thunder writes out.
TARGETS = {"Thunder": 1.0}


@dataclasses.dataclass(frozen=True)
class Counted:
    """One program's bytes in each way of running it.

    Attributes:
        count: bytes of one step of the given compiled program.
    """

    name: str
    program: Callable
    inputs: tuple[torch.Tensor, ...]
    count: Callable[[Callable, tuple[torch.Tensor, ...]], int]
    rounds: int = 1

    def measure(self, rounds: int | None, advance: Callable[[], object]) -> dict:
        """The comparison as a JSON object; where our result is not eager's, nothing is counted."""
        step = Step.of(self.program, self.inputs)
        ways = {
            EAGER: self.program,
            "Thunder": thunder.jit(self.program),
            OURS: thunder.jit(self.program, executors=gx.executors()),
        }
        want = step.run(self.program)
        errors = {name: worst_error(step.run(way), want) for name, way in ways.items() if name != EAGER}
        check = {"ok": max(errors.values()) <= tolerance(want), "tolerance": tolerance(want), "errors": errors}
        result = {"name": self.name, "sizes": ", ".join(str(list(x.shape)) for x in self.inputs), "check": check}
        if not check["ok"]:
            return result
        del want
        counts = {name: self.count(way, self.inputs) for name, way in ways.items()}
        advance()
        return result | {"rounds": 1, "bytes_used": counts, "times_as_little_as": ratios(counts)}


def ratios(counts: dict[str, int]) -> dict[str, dict[str, float]]:
    """For each other candidate its bytes over ours, with the target; 1 where neither has any."""
    found = {}
    for name, count in counts.items():
        if name == OURS:
            continue
        ratio = count / counts[OURS] if counts[OURS] else float(count == 0) or float("inf")
        found[name] = {"median": ratio, "low": ratio, "high": ratio}
        if name in TARGETS:
            found[name] |= {"target": TARGETS[name], "met": ratio >= TARGETS[name]}
    return found


def suite(device: str) -> Iterator[Counted]:
    """Both counts of every example program, of attention and of every block."""
    for name, program, inputs in _steps(device):
        yield Counted(f"{name}, peak bytes", program, inputs, functools.partial(peak, device))
        yield Counted(f"{name}, saved bytes", program, inputs, saved)


def _steps(device: str) -> Iterator[tuple[str, Callable, tuple[torch.Tensor, ...]]]:
    for name in NAMES:
        module = load(name)
        sizes = programs.CPU_SIZES.get(name, {}) if device == "cpu" else {}
        yield name, module.program(device), module.inputs(device, **sizes, requires_grad=True)
    for name, program, heads in (
        ("BSHD", attention.attention, attention.H),
        ("GQA", attention.grouped, attention.H // 4),
    ):
        yield f"{name} attention", program, attention.inputs(device, heads, trained=True)
    for name in blocks.NAMES:
        yield name, *blocks.block(name, device, trained=True)


def peak(device: str, program: Callable, inputs: tuple[torch.Tensor, ...]) -> int:
    """The most bytes at once in one step, beyond those before it; on a GPU as torch's allocator counts them."""
    from tests.programs import measure

    if device == "cpu":
        return measure.copies_and_peak(program, inputs)[1]
    measure.forget_gradients(program, inputs)
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    measure.run(program, inputs)
    torch.cuda.synchronize()
    measure.forget_gradients(program, inputs)
    return torch.cuda.max_memory_allocated() - before


def saved(program: Callable, inputs: tuple[torch.Tensor, ...]) -> int:
    """Bytes of the distinct storages that the forward keeps for the backward, parameters and inputs among them."""
    from tests.programs.measure import saved_bytes

    return saved_bytes(program, inputs)
