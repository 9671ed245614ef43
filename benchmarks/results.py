"""What a run found, as an object, as JSON, and set against an earlier run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

# Of the JSON: raised when a key changes its meaning or goes.
VERSION = 1


@dataclasses.dataclass
class Results:
    """suite -> one dictionary a comparison, as `Comparison.measure` returns it. complete: nothing was cut off."""

    device: str
    machine: dict[str, Any]
    suites: dict[str, list[dict[str, Any]]]
    complete: bool = True

    @property
    def ok(self) -> bool:
        """Whether every result that was to be timed was eager's."""
        return all(result["check"]["ok"] for result in self.comparisons())

    def comparisons(self) -> Iterator[dict[str, Any]]:
        """All comparisons, in the order in which they were made."""
        return (result for results in self.suites.values() for result in results)

    def ratios(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(comparison, candidate, ratio) of everything that was timed."""
        for result in self.comparisons():
            for candidate, ratio in ratios_of(result).items():
                yield result["name"], candidate, ratio

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"version": VERSION, "ok": self.ok, **dataclasses.asdict(self)}

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results in a file. ValueError says what is wrong with it."""
        try:
            data = json.loads(path.read_text())
            return cls(data["device"], data["machine"], data["suites"], data.get("complete", True))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a file of results ({type(error).__name__}: {error})") from None


def ratios_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """candidate -> ratio of one comparison, whether of times or of bytes: above 1, ours is better."""
    return result.get("times_as_fast_as") or result.get("times_as_little_as") or {}


def geomeans(found: list[dict[str, Any]]) -> dict[str, float]:
    """candidate -> geometric mean of its ratios over the comparisons of one suite, where it is in two or more."""
    ratios: dict[str, list[float]] = {}
    for result in found:
        for candidate, ratio in ratios_of(result).items():
            ratios.setdefault(candidate, []).append(ratio["median"])
    return {name: geometric_mean(x) for name, x in ratios.items() if len(x) > 1 and min(x) > 0}


def figures_of(result: dict[str, Any]) -> dict[str, str]:
    """candidate -> its median time or its bytes, with the unit."""
    times = {name: f"{us:.1f} µs" for name, us in result.get("median_microseconds", {}).items()}
    return times or {name: f"{count:,} bytes" for name, count in result.get("bytes_used", {}).items()}


def against(now: Results, before: Results) -> list[tuple[str, str, str]]:
    """(comparison, candidate, "better", "same", "worse" or "new") for every ratio: by the intervals, not by the medians.

    Where the intervals overlap nothing was shown, and it is the "same".
    """
    known = {(name, candidate): ratio for name, candidate, ratio in before.ratios()}
    return [(name, candidate, _verdict(ratio, known.get((name, candidate)))) for name, candidate, ratio in now.ratios()]


def _verdict(now: dict[str, float], before: dict[str, float] | None) -> str:
    if before is None:
        return "new"
    if now["low"] > before["high"]:
        return "better"
    return "worse" if now["high"] < before["low"] else "same"
