"""`bench`: the benchmark suites of a checkout; they are no part of the wheel."""

import importlib
import sys

from thunder_gemm_ex.cli._command import Result, command


def arguments(parser) -> None:
    """Which suites, and how thorough."""
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="rope, programs, overhead; all unless named")
    parser.add_argument("--rounds", type=int, default=None, help="interleaved rounds (each suite has its own default)")


@command("bench", "time the executor against Thunder and eager", example="bench rope --json", arguments=arguments)
def bench(args) -> Result:
    """Exit status 0 when every result that was timed was right."""
    # The console script, unlike `python -m`, doesn't look for modules in the current directory.
    sys.path.insert(0, "")
    try:
        run = importlib.import_module("benchmarks.run")
    except ModuleNotFoundError as error:
        if error.name not in ("benchmarks", "benchmarks.run"):
            raise
        sentence = "benchmarks/ is not here; run this in a checkout of thunder_gemm_ex."
        return Result(False, {"ok": False, "error": sentence}, sentence)
    data = run.run_suites(args.suites, rounds=args.rounds, quiet=args.json)
    return Result(data["ok"], data, run.render(data))
