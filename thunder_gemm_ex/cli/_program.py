"""The user's program on a command line: FILE or FILE:FUNCTION."""

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class NoProgram(Exception):
    """The program cannot be run; the sentence says why and what would be right."""


def split(text: str) -> tuple[str, str]:
    """(file, function or "") of FILE[:FUNCTION]. NoProgram where there is no such file."""
    path, _, name = text.partition(":")
    if not Path(path).is_file():
        raise NoProgram(f"there is no file {path}.")
    return path, name


def function(text: str, default: str) -> Callable[..., Any]:
    """The function of FILE[:FUNCTION], `default` unless named. NoProgram where it is not there."""
    path, name = split(text)
    program: Any = runpy.run_path(path).get(name or default)
    if not callable(program):
        raise NoProgram(f"{path} has no function named {name or default}.")
    found: Callable[..., Any] = program
    return found


def run(text: str, arguments: list[str]) -> None:
    """Run FILE as a script, or call its FUNCTION without arguments; a script sees `arguments` in sys.argv."""
    path, name = split(text)
    with _as_script(path, arguments):
        if not name:
            runpy.run_path(path, run_name="__main__")
            return
        function(text, name)()


@contextlib.contextmanager
def _as_script(path: str, arguments: list[str]) -> Iterator[None]:
    """What Python itself does for a script: its folder first on the path, its name and arguments in sys.argv."""
    argv, where = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [path, *arguments], [os.path.dirname(os.path.abspath(path))]
    try:
        yield
    except SystemExit as end:
        if end.code not in (None, 0):
            raise NoProgram(f"{path} ended with exit status {end.code}.") from None
    finally:
        sys.argv, sys.path[:] = argv, where
