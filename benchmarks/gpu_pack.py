"""`python -m benchmarks.gpu_pack --wheels FOLDER --out FOLDER`: the GPU tests and suites in under eight minutes.

For a machine with one NVIDIA GPU, Python 3.12 and torch 2.10 to 2.12, from a checkout, without network: the wheels are what
`benchmarks.make_pack` has collected. The smallest and most telling come first, each within its own time, and each writes its
results before the next begins: a cut loses nothing. `--rehearse` does the same on a CPU, with the tests' double of cuBLASLt
in the library's place and a round or two of everything.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from thunder_gemm_ex._files import write_whole

ROOT = Path(__file__).parents[1]
TOTAL = 480  # seconds


@dataclasses.dataclass(frozen=True)
class Stage:
    """One command; `seconds` is the most that it may take. `{out}` in it is where its results go."""

    name: str
    seconds: int
    command: tuple[str, ...]


def stages(rehearse: bool) -> list[Stage]:
    """In the order in which they run."""
    python = sys.executable
    bench = (python, "-W", "ignore", "-m", "benchmarks.run", "--rounds", "1" if rehearse else "10")
    device = ("--device", "cpu" if rehearse else "cuda")
    tests = "tests/cublaslt/test_end_to_end.py" if rehearse else "tests/gpu"
    pytest = (python, "-m", "pytest", "-p", "no:cacheprovider", "-n0", "-q")
    suites = [
        ("rope", "", 50),
        ("algorithms", "decode" if rehearse else "", 60),
        ("programs", "neva_g23, forward", 40),
        ("shapes", "decode, 1" if rehearse else "8B", 120),
        ("attention", "forward", 50),
        ("epilogues", "ReLU, m 256, forward" if rehearse else "forward", 50),
    ]
    return [
        Stage("doctor", 20, (python, "-W", "ignore", "-m", "thunder_gemm_ex", "doctor", "--json")),
        Stage("tests", 90, (*pytest, tests, "-m", "gpu or not gpu")),
        *(
            Stage(
                f"suite {suite}",
                seconds,
                (*bench, "--suite", suite, "--filter", wanted, *device, "--json", f"{{out}}/{suite}.json"),
            )
            for suite, wanted, seconds in suites
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when every stage ended well within its time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_pack", description=__doc__)
    parser.add_argument("--wheels", type=Path, help="the folder of make_pack; what is installed is used unless given")
    parser.add_argument("--out", type=Path, required=True, help="where results are written")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, over the tests' double")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(Path(folder), args.wheels)
        return run(stages(args.rehearse), args.out, environment)


def run(todo: Sequence[Stage], out: Path, environment: dict[str, str]) -> int:
    """Run the stages while there is time; `summary.json` in `out` says how each ended, and is there from the first on."""
    began, summary = time.monotonic(), []
    for stage in todo:
        left = TOTAL - (time.monotonic() - began)
        summary.append(_run_stage(stage, out, environment, left) if left > 5 else _ended(stage, "no time was left", 0))
        write_whole(out / "summary.json", json.dumps(summary, indent=1) + "\n")
        print(f"{stage.name}: {summary[-1]['ended']}, {summary[-1]['seconds']} s", flush=True)
    return 0 if all(item["ended"] == "well" for item in summary) else 1


def _run_stage(stage: Stage, out: Path, environment: dict[str, str], left: float) -> dict:
    start = time.monotonic()
    command = [word.replace("{out}", str(out)) for word in stage.command]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=min(stage.seconds, left),
        )
        text, ended = done.stdout, "well" if done.returncode == 0 else f"with status {done.returncode}"
    except subprocess.TimeoutExpired as cut:
        text, ended = cut.stdout or b"", "cut off"
    write_whole(out / f"{stage.name.replace(' ', '-')}.txt", text.decode(errors="replace"))
    return _ended(stage, ended, round(time.monotonic() - start, 1))


def _ended(stage: Stage, how: str, seconds: float) -> dict:
    return {"name": stage.name, "ended": how, "seconds": seconds}


def _environment(folder: Path, wheels: Path | None) -> dict[str, str]:
    """The process's environment, with the wheels installed into `folder` where there are any."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    if wheels is not None:
        # The checkout has no built extension: the wheel's package comes first.
        paths.insert(0, str(folder))
        found = sorted(map(str, wheels.glob("*.whl")))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *found], check=True)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


if __name__ == "__main__":
    sys.exit(main())
