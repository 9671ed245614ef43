"""Thunder's own test files with the executor in front and without it: `python -m tests.opinfos.thunder_files [file ...]`.

They ship in Thunder's wheel. Its conftest.py is left out, and modules that some of its tests need have stand-ins
(`without.py`); test_nvfuser.py needs a device. Prints a table, then what passes without the executor and fails with it;
exits with 1 if there is something. Its `test_errors` ask for Thunder's own words where ours are eager's: those are a column
of their own ("words"), and `test_opinfos.py::test_errors` compares the same samples with eager.

With Thunder 0.2.6 and torch 2.10.0 on CPU, passing without and with the executor: autocast 24 and 24, grad 22 and 22, ops 75
and 64 (11 of words), jit_general 1 and 1, transforms 1 and 1, dynamo 22 and 22. None is lost.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

MATMULS = "matmul or linear or einsum or baddbmm or outer or multi_dot or bmm or mm"
# Of files about all operations those that multiply.
FILES = {
    "autocast": "",
    "grad": f"({MATMULS}) and not thunder_vs_torch",
    "ops": f"({MATMULS}) and not comma",
    "jit_general": MATMULS,
    "transforms": MATMULS,
    "dynamo": "autocast or matmul or linear or basic or splitter",
}
ROOT = pathlib.Path(__file__).parents[2]


def outcomes(file, with_executor):
    """{test: "passed" | "failed" | "skipped"} of one file."""
    folder = pathlib.Path(importlib.util.find_spec("thunder").origin).parent / "tests"
    plugin = ["-p", "tests.opinfos.with_executor"] if with_executor else ["-p", "tests.opinfos.without"]
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.xml")
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
            + [
                "-c",
                os.devnull,
                "-q",
                *plugin,
                f"--junitxml={report}",
                "-k",
                FILES[file],
                str(folder / f"test_{file}.py"),
            ],
            cwd=scratch,
            env={**os.environ, "PYTHONPATH": str(ROOT), "THUNDER_GEMM_EX_RAISE": "1"},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        cases = ET.parse(report).iter("testcase") if report.exists() else ()
        return {f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case):
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed"
        if child.tag == "skipped":
            return "skipped"
    return "passed"


def main(files) -> int:
    """Run, compare, print."""
    lost = []
    print(f"{'file':14}{'tests':>7}{'pass without':>14}{'pass with':>11}{'words':>7}{'lost':>6}")
    for file in files or FILES:
        without, with_executor = (outcomes(file, x) for x in (False, True))
        here = [t for t, o in without.items() if o == "passed" and with_executor.get(t) != "passed"]
        words = [t for t in here if "::test_errors_" in t]
        here = [t for t in here if t not in words]
        passed = [list(x.values()).count("passed") for x in (without, with_executor)]
        print(f"{file:14}{len(without):7}{passed[0]:14}{passed[1]:11}{len(words):7}{len(here):6}", flush=True)
        lost += here
    print(*lost, sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
