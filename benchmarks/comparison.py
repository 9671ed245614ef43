"""One comparison: several ways to compute one thing. First checked, then timed in interleaved rounds."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import torch

from benchmarks.cold import cold_rounds
from benchmarks.intervals import ratio_interval
from thunder_gemm_ex.cli._check import tolerance, worst_error
from thunder_gemm_ex.cli._interleave import interleaved
from thunder_gemm_ex.tuning.measure import Clock

EAGER, OURS = "eager", "gemm_ex"


def said(error: Exception) -> str:
    """The first line of an error, without the folders and addresses of this machine: results are committed."""
    line = f"{type(error).__name__}: {error}".splitlines()[0]
    return re.sub(r"0x[0-9a-f]+", "0x...", re.sub(r"(?:/[\w.+-]+)+/", "", line))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`candidates` return flat lists of tensors; one is called EAGER, one OURS.

    Attributes:
        targets: candidate -> the least ratio time(candidate) / time(OURS) that is wanted, by the interval's lower end.
        rounds: interleaved rounds unless the command line says otherwise.
        facts: what else is recorded with the result, such as `flops` and `bytes` for a roofline.
        cold: on a GPU each call is timed alone, by events, with nothing in the L2 cache.
    """

    name: str
    sizes: str
    candidates: dict[str, Callable[[], Sequence[torch.Tensor]]]
    targets: dict[str, float] = dataclasses.field(default_factory=dict)
    rounds: int = 40
    facts: dict[str, float] = dataclasses.field(default_factory=dict)
    cold: bool = False

    def measure(self, rounds: int | None, advance: Callable[[], object]) -> dict:
        """The comparison as a JSON object. Where our result is not eager's, no time is taken.

        Args:
            advance: called after each round.
        """
        check = self.check()
        result = {"name": self.name, "sizes": self.sizes, "check": check, **self.facts, "rounds": rounds or self.rounds}
        if not check["ok"]:
            return result
        calls = {name: call for name, call in self.candidates.items() if name not in check["failed"]}
        measured = []
        for took in self._rounds(calls, result["rounds"]):
            measured.append(took)
            advance()
        medians = {name: sorted(took[name] for took in measured)[len(measured) // 2] for name in calls}
        return (
            result | {"median_microseconds": {n: round(s * 1e6, 2) for n, s in medians.items()}} | self.ratios(measured)
        )

    def _rounds(self, calls: dict[str, Callable], rounds: int) -> Iterator[dict[str, float]]:
        cuda = torch.cuda.is_available()
        if self.cold and cuda:
            return cold_rounds(calls, rounds, Clock(torch.device("cuda")))
        return interleaved(calls, rounds=rounds, finish=torch.cuda.synchronize if cuda else None)

    def check(self) -> dict:
        """Every candidate's largest error relative to eager; ok says whether all are within rounding.

        A peer that cannot run is in `failed` with what it said, and is left out; where ours cannot, ok is False.
        """
        want = self.candidates[EAGER]()
        errors, failed = {}, {}
        for name, call in self.candidates.items():
            if name == EAGER:
                continue
            try:
                errors[name] = worst_error(call(), want)
            except Exception as error:
                failed[name] = said(error)
        limit = tolerance(want)
        ok = OURS not in failed and all(error <= limit for error in errors.values())
        return {"ok": ok, "tolerance": limit, "errors": errors, "failed": failed}

    def ratios(self, measured: list[dict[str, float]]) -> dict:
        """For each candidate how many times as fast OURS is, with a 95 % interval, and the target where it has one."""
        ratios = {}
        for name in measured[0]:
            if name == OURS:
                continue
            median, low, high = ratio_interval([took[name] / took[OURS] for took in measured])
            ratios[name] = {"median": median, "low": low, "high": high}
            if name in self.targets:
                ratios[name] |= {"target": self.targets[name], "met": low >= self.targets[name]}
        return {"times_as_fast_as": ratios}
