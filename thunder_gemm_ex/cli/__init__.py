"""The command line. Each module here whose name has no underscore in front is one command, see `_command`."""

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thunder_gemm_ex._version import __version__
from thunder_gemm_ex.cli._command import COMMANDS, Command

__all__ = ["main", "parser"]

PROG = "python -m thunder_gemm_ex"
STATUSES = "Exit status: 0 done and right, 1 done and something is wrong, 2 not understood."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done and right, 1 done and something is wrong, 2 not understood."""
    args = parser().parse_args(argv)
    result = args.command.run(args)
    if args.json:
        json.dump(result.data, sys.stdout, indent=2)
        print()
    elif result.text is not None:
        print_rich(result.text)
    return 0 if result.ok else 1


def parser() -> argparse.ArgumentParser:
    """The parser with a subparser for every command."""
    top = argparse.ArgumentParser(
        prog=PROG,
        description="Every matmul one GEMM call: an executor for Lightning Thunder.",
        epilog=STATUSES,
    )
    top.add_argument("--version", action="version", version=f"thunder_gemm_ex {__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in discover():
        add_subparser(subparsers, command)
    return top


def discover() -> list[Command]:
    """Imports the command modules, each of which registers itself, and returns what they registered."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")
    return [COMMANDS[name] for name in sorted(COMMANDS)]


def add_subparser(subparsers: Any, command: Command) -> None:
    """One subparser: what every command has, then its own arguments."""
    sub = subparsers.add_parser(
        command.name,
        help=command.summary,
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=f"{command.status}\n\nexample: {PROG} {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.set_defaults(json=False, json_file=None)
    if command.json_to_file:
        sub.add_argument("--json", action=_JsonTo, nargs="?", metavar="FILE", help="JSON instead of text, or into FILE")
    else:
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    if command.arguments is not None:
        command.arguments(sub)
    sub.set_defaults(command=command)


class _JsonTo(argparse.Action):
    """`--json` prints JSON; `--json=FILE` writes it there as well as the text here."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        namespace.json, namespace.json_file = values is None, None if values is None else Path(values)


def print_rich(text: Any) -> None:
    """Prints a rich renderable; where stdout is no terminal, wide enough that no trace line is cut."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=False).print(text)
