"""What a command is, and the table in which command modules enter themselves.

@command("doctor", "say what works here", example="doctor --json")
def doctor(args) -> Result: ...
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

COMMANDS: dict[str, "Command"] = {}


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command found: `data` for --json, `text` (a rich renderable) for people, `ok` for the exit status."""

    ok: bool
    data: dict[str, Any]
    text: Any = None


@dataclasses.dataclass(frozen=True)
class Command:
    """One subcommand; `arguments` adds its own options to the subparser. json_to_file: --json may name a file."""

    name: str
    summary: str
    example: str
    run: "Run"
    arguments: Callable[[argparse.ArgumentParser], None] | None = None
    json_to_file: bool = False

    @property
    def status(self) -> str:
        """What its exit statuses say: the first sentence of the function's own docstring, and what all have in common."""
        return f"{(self.run.__doc__ or '').splitlines()[0]}\nElse 1, or 2 where the command line is not understood."


Run = Callable[[argparse.Namespace], Result]


def command(
    name: str,
    summary: str,
    *,
    example: str,
    arguments: Callable[[argparse.ArgumentParser], None] | None = None,
    json_to_file: bool = False,
) -> Callable[[Run], Run]:
    """Registers the decorated function as the subcommand `name`."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, summary, example, run, arguments, json_to_file)
        return run

    return register
