"""`tune`: time cuBLASLt's algorithms on the user's own program, and keep the best for later processes."""

import argparse

from thunder_gemm_ex.cli import _program
from thunder_gemm_ex.cli._command import Result, command

FUNCTION = "main"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The program, and how thorough."""
    parser.add_argument(
        "program", metavar="FILE[:FUNCTION]", help=f"is called without arguments; {FUNCTION} unless named"
    )
    parser.add_argument("--candidates", type=int, default=16, help="algorithms for each product, 1 to 256 (default 16)")
    parser.add_argument("--rounds", type=int, default=20, help="timed calls of each (default 20)")
    parser.add_argument("--no-store", action="store_true", help="only show what was found")


@command("tune", "time algorithms on your program and keep the best", example="tune train.py:step", arguments=arguments)
def tune(args: argparse.Namespace) -> Result:
    """Exit status 0 when something was tuned."""
    from thunder_gemm_ex import tuning

    try:
        program = _program.function(args.program, FUNCTION)
    except _program.NoProgram as error:
        return Result(False, {"ok": False, "error": str(error)}, str(error))
    report = tuning.tune(
        program,
        candidates=args.candidates,
        rounds=args.rounds,
        store=not args.no_store,
        progress=not args.json,
    )
    if not report.rows:
        text = "cuBLASLt computed no product of this program, so there is nothing to tune: see `doctor` and gx.explain."
        return Result(False, {"ok": False, **report.to_dict(), "error": text}, text)
    return Result(True, {"ok": True, **report.to_dict()}, str(report))
