"""`explain`: run a program and say what was done with the matmuls of every function that it compiles with Thunder."""

import argparse
import contextlib
import sys

from thunder_gemm_ex.cli import _program
from thunder_gemm_ex.cli._command import Result, command


def arguments(parser: argparse.ArgumentParser) -> None:
    """The program, its own arguments, and where a page is written to."""
    parser.add_argument(
        "program", metavar="FILE[:FUNCTION]", help="a script that is run; with a function, that is called"
    )
    parser.add_argument("--html", metavar="PAGE", help="write a page with the traces before and after")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")


@command(
    "explain",
    "run your program and say what was done with each matmul",
    example="explain --html report.html train.py",
    arguments=arguments,
)
def explain(args: argparse.Namespace) -> Result:
    """Exit status 0 when a function was compiled with the executor; it is in Thunder's defaults while the program runs."""
    import thunder_gemm_ex as gx
    from thunder_gemm_ex.report import watch

    try:
        # What the program prints is not part of what this command prints.
        with watch() as report_now, gx.enable(), contextlib.redirect_stdout(sys.stderr):
            _program.run(args.program, args.args)
            report = report_now()
    except _program.NoProgram as error:
        return Result(False, {"ok": False, "error": str(error)}, str(error))
    if not report.programs:
        text = (
            f"{args.program} compiled nothing with gemm_ex: it must call a function of thunder.jit or thunderfx, whose "
            "executors are Thunder's defaults or have gemm_ex in them."
        )
        return Result(False, {"ok": False, "error": text, **report.to_dict()}, text)
    if args.html:
        try:
            report.to_html(args.html)
        except OSError as error:
            text = f"--html {args.html} cannot be written: {error.strerror}."
            return Result(False, {"ok": False, "error": text, **report.to_dict()}, text)
    return Result(True, {"ok": True, **report.to_dict()}, report)
