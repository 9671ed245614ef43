"""`python -m benchmarks.make_pack FOLDER`: what a bare GPU machine needs beside torch, for `benchmarks.gpu_pack`.

Wheels of this package, of what it needs and of what its tests need, without torch and what torch itself brings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LIMIT = 60 << 20  # bytes, all wheels together
# What the gpu tests and the suites need beside the package.
ALSO = ("pytest>=8", "numpy")
ROOT = Path(__file__).parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when the wheels are there and small enough."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.make_pack", description=__doc__)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(argv)
    args.folder.mkdir(parents=True, exist_ok=True)
    _pip("wheel", "--no-deps", "--wheel-dir", args.folder, ROOT)
    wanted = beside_torch(*args.folder.glob("thunder_gemm_ex-*.whl"), *ALSO)
    _pip("download", "--no-deps", "--only-binary=:all:", "--dest", args.folder, *wanted)
    size = sum(path.stat().st_size for path in args.folder.glob("*.whl"))
    print(f"{len(list(args.folder.glob('*.whl')))} wheels, {size / (1 << 20):.1f} MiB")
    if size > LIMIT:
        print(f"that is more than {LIMIT >> 20} MiB", file=sys.stderr)
    return 0 if size <= LIMIT else 1


def beside_torch(*requirements: object) -> list[str]:
    """name==version of all that the requirements bring into a fresh environment and torch alone does not."""
    with_torch = _resolved("torch==2.10.*")
    everything = _resolved("torch==2.10.*", *requirements)
    return [
        f"{name}=={version}" for name, version in everything.items() if name not in {*with_torch, "thunder-gemm-ex"}
    ]


def _resolved(*requirements: object) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _pip("install", "--quiet", "--dry-run", "--ignore-installed", "--report", report, *requirements)
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {meta["name"].lower().replace("_", "-"): meta["version"] for meta in found}


def _pip(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], check=True)


if __name__ == "__main__":
    sys.exit(main())
