"""`gx.tune`: run the user's program, time what there is for each of its products, keep the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from thunder_gemm_ex.engines import choose, cublaslt, cublaslt_calls, recording
from thunder_gemm_ex.engines.numerics import BATCH_INVARIANT
from thunder_gemm_ex.engines.recording import Call
from thunder_gemm_ex.tuning.measure import Clock, fault_of
from thunder_gemm_ex.tuning.store import ATEN, Choice, Store

# A choice other than the heuristic's has to be worth it: less is noise.
_GAIN = 0.03


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What was found for one plan. Times in microseconds; `faults` of algorithms that were not to be used."""

    key: str
    problem: str
    algo: str  # 128 hex digits, or "aten"
    microseconds: float
    heuristic_microseconds: float
    aten_microseconds: float
    candidates: int
    faults: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TuneReport:
    """A row a plan, and what was left out with the reason."""

    rows: tuple[Tuned, ...]
    skipped: tuple[str, ...]
    gpu: str
    stored: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        lines = [f"{len(self.rows)} plan(s) on {self.gpu}, {'kept' if self.stored else 'not kept'} for later processes"]
        for row in self.rows:
            what = "ATen" if row.algo == ATEN else "an algorithm"
            lines.append(
                f"  {row.problem}: {what} of {row.candidates + 1}, {row.microseconds:.1f} us "
                f"(heuristic {row.heuristic_microseconds:.1f}, ATen {row.aten_microseconds:.1f})"
            )
            lines += [f"    not used: {fault}" for fault in row.faults]
        return "\n".join([*lines, *(f"  skipped: {reason}" for reason in self.skipped)])


def tune(
    program: Callable[..., Any],
    *args: Any,
    candidates: int = 16,
    rounds: int = 20,
    store: bool = True,
    progress: bool = True,
    **kwargs: Any,
) -> TuneReport:
    """Run `program(*args, **kwargs)`, and time the algorithms for every product that it gives to cuBLASLt.

    Each is timed with a cold L2 cache; its result is compared with ATen's, and the memory around the output is watched.
    ATen is a candidate too. What was best is used from now on, and by later processes (file: `tuning.store`).

    Args:
        candidates: algorithms asked of the heuristic for each product, 1 to 256.
        rounds: timed calls of each.
        store: keep the choices in the user's cache directory.
        progress: show a bar on stderr.

    Raises:
        RuntimeError: while a CUDA graph is captured, where nothing may be timed.
        ValueError: candidates or rounds are below 1.
    """
    if candidates < 1 or rounds < 1:
        raise ValueError(f"candidates and rounds must be at least 1, were {candidates} and {rounds}")
    from rich.console import Console
    from rich.progress import Progress

    _refuse_capture()
    with recording.recorded() as recorded:
        program(*args, **kwargs)
    calls, skipped = _distinct(recorded)
    rows = []
    with Progress(console=Console(stderr=True), disable=not progress, transient=True) as bar:
        task = bar.add_task("tuning", total=len(calls))
        for key, call in calls.items():
            rows.append(_tune_one(key, call, candidates, rounds))
            bar.advance(task)
    gpu = gpu_name(next(iter(calls.values())).a.device if calls else None)
    choices = {row.key: Choice(row.algo, row.microseconds, row.aten_microseconds) for row in rows}
    _use(choices)
    kept = bool(store and choices) and Store().add(gpu, choices)
    return TuneReport(tuple(rows), tuple(skipped), gpu, kept)


def apply_stored(store: Store | None = None) -> int:
    """Use what earlier processes tuned on this kind of GPU; returns how many plans. The library checks each algorithm
    against the very problem before it runs it, and falls back to its heuristic."""
    choices = (store or Store()).read(gpu_name())
    _use(choices)
    return len(choices)


def gpu_name(device: torch.device | None = None) -> str:
    """The name under which choices are kept: of the device's GPU, "host" for host memory; of unlike GPUs, none at all."""
    if device is not None and device.type != "cuda":
        return "host"
    names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())} or {"host"}
    return names.pop() if len(names) == 1 else "several kinds of GPU"


def _refuse_capture(tensor: torch.Tensor | None = None) -> None:
    probe = torch.empty(0, device="cuda" if torch.cuda.is_available() else "cpu") if tensor is None else tensor
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    if capturing or cublaslt.extension().captured(probe):
        raise RuntimeError("a CUDA graph is being captured: tune before or after, nothing is timed in between")


def _distinct(calls: list[Call]) -> tuple[dict[str, Call], list[str]]:
    """One call for each plan, and why others are left out."""
    found: dict[str, Call] = {}
    skipped: dict[str, None] = {}
    for call in calls:
        if call.flags & BATCH_INVARIANT:
            skipped['numerics is "batch_invariant": its algorithm may not depend on the problem'] = None
            continue
        try:
            offered = call.bound.candidates(call.a, call.b, call.out, call.bias, call.c, call.flags, count=1)
        except ValueError as error:
            skipped[str(error).splitlines()[0]] = None
            continue
        found.setdefault(offered["key"], call)
    return found, list(skipped)


@dataclasses.dataclass(frozen=True)
class Times:
    """What was measured of one call in one interleaved run: algorithm -> median microseconds, ATen among them.

    Attributes:
        faults: algorithm -> why it is not to be used.
        heuristic: what runs without tuning: the first right algorithm that the library offers.
    """

    microseconds: dict[str, float]
    faults: dict[str, str]
    heuristic: str

    def best(self) -> str:
        """The fastest, unless it is hardly faster than the heuristic's."""
        best = min(self.microseconds, key=lambda algo: self.microseconds[algo])
        worth = self.microseconds[best] <= self.microseconds[self.heuristic] * (1 - _GAIN)
        return best if worth else self.heuristic


def times_of(call: Call, count: int, rounds: int) -> Times:
    """Time up to `count` algorithms for the call, each that is right, and ATen."""
    _refuse_capture(call.a)
    exact = call.aten(call.a, call.b, call.bias, call.c, call.alpha, call.beta)
    offered = call.bound.candidates(call.a, call.b, call.out, call.bias, call.c, call.flags, count=count)["candidates"]
    faults = {x["algo"]: fault_of(call, x["algo"], exact) for x in offered}
    right = [algo for algo, fault in faults.items() if not fault]
    times = Clock(call.a.device).medians({algo: run_with(call, algo) for algo in (*right, ATEN)}, rounds)
    return Times(times, faults, right[0] if right else ATEN)


def run_with(call: Call, algo: str) -> Callable[[], object]:
    """What carries the call out with that algorithm, into its own output, or with ATen, into a new one."""
    if algo == ATEN:
        return lambda: call.aten(call.a, call.b, call.bias, call.c, call.alpha, call.beta)
    return lambda: call.bound.full(call.a, call.b, call.out, *call.terms, algo)


def _tune_one(key: str, call: Call, count: int, rounds: int) -> Tuned:
    found = times_of(call, count, rounds)
    best = found.best()
    return Tuned(
        key=key,
        problem=_problem(call),
        algo=best,
        microseconds=found.microseconds[best],
        heuristic_microseconds=found.microseconds[found.heuristic],
        aten_microseconds=found.microseconds[ATEN],
        candidates=len(found.faults),
        faults=tuple(fault for fault in found.faults.values() if fault),
    )


def _problem(call: Call) -> str:
    plan = call.bound.explain(call.a, call.b, call.out, call.bias, call.c, call.flags)
    dtype = str(call.a.dtype).removeprefix("torch.")
    return "{layout} rows {rows} cols {cols} k {k} batch {batch} ".format(**plan) + dtype


def _use(choices: dict[str, Choice]) -> None:
    module = cublaslt.extension()
    for key, choice in choices.items():
        if choice.algo == ATEN:
            cublaslt_calls.aten_faster.add(key)
        else:
            cublaslt_calls.aten_faster.discard(key)
            module.tuned_put(key, choice.algo)
    if choices:
        module.tuned_apply()
        choose.forget()


def forget_tuned() -> None:
    """Back to the heuristic, in this process: the file stays as it is."""
    cublaslt_calls.aten_faster.clear()
    cublaslt.extension().tuned_clear()
    choose.forget()
