"""Compiles the engine without Python, under a sanitizer, together with a program of tests/csrc/native, and runs it.

`python -m tests.csrc.sanitized fuzz 10000000` runs the fuzzer for as long as one likes.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.double.build import build, cuda_includes, real_library

ROOT = Path(__file__).parents[2]
NATIVE = Path(__file__).with_name("native")
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread", "-Wno-tsan"],
}
# Told to the sanitizers: a fault ends the program; tvm-ffi's own library is not instrumented.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions={NATIVE / 'leaks.txt'}:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:suppressions={NATIVE / 'races.txt'}:ignore_noninstrumented_modules=1",
}


class Sanitized:
    """The engine and the double, instrumented, in a folder; programs are linked when they are first run."""

    def __init__(self, folder: Path, sanitizer: str) -> None:
        from tvm_ffi import libinfo

        self.folder = folder
        self.flags = [*SANITIZERS[sanitizer], "-g1", "-O1", "-fno-omit-frame-pointer"]
        self.tvm = Path(libinfo.find_libtvm_ffi())
        theirs = [f for d in libinfo.include_paths() for f in ("-isystem", str(d))]
        self.includes = ["-I", str(ROOT / "csrc"), *theirs, *cuda_includes()]
        self.double = build(folder, *self.flags)
        sources = [p for p in sorted((ROOT / "csrc").glob("*.cc")) if p.name != "module.cc"]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.objects = list(pool.map(self._compile, sources))

    def _compile(self, source: Path) -> Path:
        target = self.folder / f"{source.stem}.o"
        warn = ["-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            ["g++", "-std=c++17", "-c", *warn, *self.flags, *self.includes, str(source), "-o", str(target)], check=True
        )
        return target

    def link(self, program: str) -> Path:
        """The program's file, made when it is first asked for."""
        target = self.folder / program
        if not target.exists():
            main = self._compile(NATIVE / f"{program}.cc")
            link = ["-L", str(self.tvm.parent), "-ltvm_ffi", f"-Wl,-rpath,{self.tvm.parent}", "-ldl", "-pthread"]
            subprocess.run(["g++", *self.flags, *map(str, (main, *self.objects)), "-o", str(target), *link], check=True)
        return target

    def run(self, program: str, *args: object, timeout: float = 600) -> dict[str, int]:
        """The numbers that the program printed. AssertionError with its words when it fails."""
        command = [str(self.link(program)), str(self.double), str(real_library()), *map(str, args)]
        done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr[-6000:]
        return {name: int(n) for name, n in re.findall(r"(\w+) (-?\d+)", done.stdout)}


def main(program: str, count: int, seed: int = 1) -> None:
    """`count` problems from `seed` on, shared out among the cores."""
    cores = os.cpu_count() or 1
    share = -(-count // cores)
    with tempfile.TemporaryDirectory() as made, concurrent.futures.ThreadPoolExecutor(cores) as pool:
        built = Sanitized(Path(made), "address")
        built.link(program)
        parts = list(pool.map(lambda i: built.run(program, share, seed + i * share, timeout=100_000), range(cores)))
    print({name: sum(part[name] for part in parts) for name in parts[0]})


if __name__ == "__main__":
    main(sys.argv[1], *(int(x) for x in sys.argv[2:]))
