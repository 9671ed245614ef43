"""Where tuned choices live: one JSON file in the user's cache directory.

A choice is stored by value (the algorithm's 64 bytes), under the GPU's name and the plan's key, which holds the library's
version with everything else that a plan depends on. Writers take a lock, read what others have written, write a new file
beside the old one and rename it. What cannot be read is never thrown away: it is moved aside, and said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunder_gemm_ex._files import write_whole

FORMAT = 1
ATEN = "aten"  # instead of an algorithm: ATen was faster than all
_HEX = frozenset("0123456789abcdef")
_ALGO_DIGITS = 128  # of cublasLtMatmulAlgo_t's 64 bytes


@dataclasses.dataclass(frozen=True)
class Choice:
    """The algorithm for one plan: 128 hex digits, or ATEN. Times are medians in microseconds, kept for people."""

    algo: str
    microseconds: float
    aten_microseconds: float


def default_path() -> Path:
    """$THUNDER_GEMM_EX_CACHE, or the user's cache directory as the XDG base directory specification has it."""
    named = os.environ.get("THUNDER_GEMM_EX_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named or Path(base, "thunder_gemm_ex")) / "tuned.json"


class Store:
    """The choices in a file. No method raises for what the file or its directory are like: it warns."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def read(self, gpu: str) -> dict[str, Choice]:
        """The choices for a GPU, by plan key; none where there is no readable file."""
        return self._choices(self._read() or {}, gpu)

    def add(self, gpu: str, choices: Mapping[str, Choice]) -> bool:
        """Keep choices beside those that are there, newer ones winning. False (and a warning) where it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                data = self._read()
                if data is None:
                    self._move_aside()
                    data = {}
                kept = data.setdefault("gpus", {}).setdefault(gpu, {})
                kept.update({key: dataclasses.asdict(choice) for key, choice in choices.items()})
                write_whole(self.path, json.dumps({"format": FORMAT, **data}, indent=1))
        except OSError as error:
            self._say(f"cannot be written ({error.strerror or error}); what was tuned holds for this process alone")
            return False
        return True

    def _read(self) -> dict[str, Any] | None:
        """{} where there is no file, None where there is one that is no store of this format."""
        try:
            data = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._say(f"cannot be read ({error.strerror or error}); nothing is tuned")
            return {}
        except ValueError:
            self._say("is no JSON; nothing of it is used")
            return None
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("gpus"), dict):
            self._say(f"is not of format {FORMAT}; nothing of it is used")
            return None
        return data

    def _choices(self, data: dict[str, Any], gpu: str) -> dict[str, Choice]:
        found, bad = {}, 0
        of_gpu = data.get("gpus", {}).get(gpu, {})
        for key, entry in of_gpu.items() if isinstance(of_gpu, dict) else ():
            choice = _choice_of(key, entry)
            if choice is None:
                bad += 1
            else:
                found[key] = choice
        if bad:
            self._say(f"has {bad} entry(s) that make no sense; they are left out")
        return found

    def _move_aside(self) -> None:
        for i in range(1000):
            aside = self.path.with_suffix(f".unreadable-{i}.json")
            if not aside.exists():
                os.replace(self.path, aside)
                self._say(f"was moved to {aside.name}")
                return

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.path.with_suffix(".lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _say(self, what: str) -> None:
        warnings.warn(f"thunder_gemm_ex: {self.path} {what}.", stacklevel=4)


def _choice_of(key: object, entry: object) -> Choice | None:
    if not isinstance(key, str) or not isinstance(entry, dict):
        return None
    try:
        choice = Choice(entry["algo"], float(entry["microseconds"]), float(entry["aten_microseconds"]))
    except (KeyError, TypeError, ValueError):
        return None
    known = choice.algo == ATEN or (isinstance(choice.algo, str) and len(choice.algo) == _ALGO_DIGITS)
    return choice if known and (choice.algo == ATEN or _HEX.issuperset(choice.algo)) else None
