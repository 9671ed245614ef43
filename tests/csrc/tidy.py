"""`python -m tests.csrc.tidy`: clang-tidy over csrc/ with .clang-tidy, as CI runs it. Exit status 0 when it is clean."""

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

from tests.double.build import cuda_includes

ROOT = Path(__file__).parents[2]


def check(source: Path) -> tuple[int, str]:
    """(exit status, clang-tidy's words) for one file."""
    from tvm_ffi import libinfo

    theirs = [f for d in libinfo.include_paths() for f in ("-isystem", str(d))]
    flags = ["-std=c++17", "-I", str(ROOT / "csrc"), *theirs, *cuda_includes()]
    command = ["clang-tidy", "--quiet", str(source), "--", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout


def main() -> int:
    """Every source file; the headers come with them."""
    sources = [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "csrc").glob("*.cc"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, sources))
    for _, words in results:
        print(words, end="")
    return max(status for status, _ in results)


if __name__ == "__main__":
    sys.exit(main())
