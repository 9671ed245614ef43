"""One comparison: several ways to compute one thing. First checked, then timed in interleaved rounds."""

import dataclasses
from collections.abc import Callable, Sequence

import torch

from benchmarks.intervals import ratio_interval
from thunder_gemm_ex.cli._check import tolerance, worst_error
from thunder_gemm_ex.cli._interleave import interleaved

EAGER, OURS = "eager", "gemm_ex"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`candidates` return flat lists of tensors; one is called EAGER, one OURS.

    Attributes:
        targets: candidate -> the least ratio time(candidate) / time(OURS) that is wanted.
        rounds: interleaved rounds unless the command line says otherwise.
        facts: what else is recorded with the result, such as `flops` and `bytes` for a roofline.
    """

    name: str
    sizes: str
    candidates: dict[str, Callable[[], Sequence[torch.Tensor]]]
    targets: dict[str, float] = dataclasses.field(default_factory=dict)
    rounds: int = 40
    facts: dict[str, float] = dataclasses.field(default_factory=dict)

    def measure(self, rounds: int | None, advance: Callable[[], object]) -> dict:
        """The comparison as a JSON object. Where our result is not eager's, no time is taken.

        Args:
            advance: called after each round.
        """
        check = self.check()
        result = {"name": self.name, "sizes": self.sizes, "check": check, **self.facts, "rounds": rounds or self.rounds}
        if not check["ok"]:
            return result
        measured = []
        finish = torch.cuda.synchronize if torch.cuda.is_available() else None
        for took in interleaved(self.candidates, rounds=result["rounds"], finish=finish):
            measured.append(took)
            advance()
        medians = {name: sorted(took[name] for took in measured)[len(measured) // 2] for name in self.candidates}
        return (
            result | {"median_microseconds": {n: round(s * 1e6, 2) for n, s in medians.items()}} | self.ratios(measured)
        )

    def check(self) -> dict:
        """Every candidate's largest error relative to eager; ok says whether all are within rounding."""
        want = self.candidates[EAGER]()
        errors = {name: worst_error(call(), want) for name, call in self.candidates.items() if name != EAGER}
        limit = tolerance(want)
        return {"ok": all(error <= limit for error in errors.values()), "tolerance": limit, "errors": errors}

    def ratios(self, measured: list[dict[str, float]]) -> dict:
        """For each candidate how many times as fast OURS is, with a 95 % interval, and the target where it has one."""
        ratios = {}
        for name in self.candidates:
            if name == OURS:
                continue
            median, low, high = ratio_interval([took[name] / took[OURS] for took in measured])
            ratios[name] = {"median": median, "low": low, "high": high}
            if name in self.targets:
                ratios[name] |= {"target": self.targets[name], "met": median >= self.targets[name]}
        return {"times_as_fast_as": ratios}
