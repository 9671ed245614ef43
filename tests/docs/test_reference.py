"""The reference pages are complete and true: whatever the sources can say stands there, and nothing else does."""

from __future__ import annotations

import argparse
import re

import pytest

import thunder_gemm_ex as gx
from tests.docs.pages import ROOT
from tests.docs.sentences import PACKAGE, literals, raised, said, warned
from thunder_gemm_ex.cli import discover, parser
from thunder_gemm_ex.symbols import _ALLOWED

REASONS, ERRORS, OPTIONS, COMMANDS, API = (
    (ROOT / "docs/reference" / f"{name}.md").read_text() for name in ("reasons", "errors", "options", "commands", "api")
)
RULES = sorted((PACKAGE / "rules").glob("*.py"))
RUNS = [PACKAGE / "engines" / f"{name}.py" for name in ("cublaslt_calls", "epilogues", "scaled", "sites")]
CSRC = sorted([*ROOT.glob("csrc/*.cc"), *ROOT.glob("csrc/*.h")])
THROWS, REFUSES = r"throw (Argument|Library)Error|TVM_FFI_THROW", r"\brefus|\breturn\b|\bfail\(|reasons\[|subject ="
# How a call is described, beside why it was made.
_NO_REASON = {
    "{layout}, {calls} call(s) of batch {batch}, rows {rows} cols {cols} k {k}",
    "…, after a copy of …",
    'a call with the epilogue "…"',
    'a product, then ATen\'s part of "…"',
    "a call with scales",
    "as the heuristic offers",
}
_FROM_ELSEWHERE = {
    "… failed with …: …": "report/record.py",
    "torch finds no CUDA device (no GPU, or no driver)": "engines/cublaslt.py",
}


def first_cells(text: str) -> set[str]:
    """The code in the first cell of every row of a page's tables."""
    return set(re.findall(r"^\| `(.*?)` \|", text, re.MULTILINE))


def listed(text: str) -> set[str]:
    """All code of a text."""
    return set(re.findall(r"`([^`]+)`", text))


PLANNER = listed(REASONS.partition("in the words of `csrc/`:")[2])
EXTENSION = listed(ERRORS.partition("## From the extension")[2].partition("## Warnings")[0])


def test_every_reason_is_explained_and_no_other():
    brief = {text for text in said(*RULES, words=2) if re.search("stays|factor of|result", text)}
    known = said(*RULES) | brief | (said(*RUNS) - _NO_REASON) | set(_FROM_ELSEWHERE)
    assert first_cells(REASONS) == known


@pytest.mark.parametrize("sentence", _FROM_ELSEWHERE)
def test_what_others_say_is_said(sentence):
    assert sentence in said(PACKAGE / _FROM_ELSEWHERE[sentence], words=2)


def test_every_refusal_of_the_extension_is_listed_and_no_other():
    assert not PLANNER & EXTENSION
    assert literals(THROWS, *CSRC) <= EXTENSION
    assert PLANNER | EXTENSION == literals(f"{THROWS}|{REFUSES}", *CSRC)


def test_every_error_is_explained_and_no_other():
    errors = ERRORS.partition("## Warnings")[0]
    assert first_cells(errors) == raised(*PACKAGE.rglob("*.py"))


def test_every_warning_is_explained_and_no_other():
    assert first_cells(ERRORS.partition("## Warnings")[2]) == warned(*PACKAGE.rglob("*.py"))


def test_every_option_with_every_value_and_no_other():
    rows = re.findall(r"^\| (?:`(gemm_\w+)`)? ?\| `(.*?)` \|", OPTIONS, re.MULTILINE)
    found: dict[str, list[str]] = {}
    for option, value in rows:
        found.setdefault(option or list(found)[-1], []).append(value)
    assert found == {name: [_written(x) for x in choices] for name, (choices, _) in _ALLOWED.items()}


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_every_command_with_every_argument_and_no_other():
    rows = {
        row[0]: listed(row[1])
        for row in re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", COMMANDS, re.MULTILINE)
        if row[0].islower()
    }
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert rows == {command.name: _arguments(commands.choices[command.name]) for command in discover()}


def _arguments(sub: argparse.ArgumentParser) -> set[str]:
    shown = {a.option_strings[-1] if a.option_strings else a.metavar for a in sub._actions}
    return shown - {"--help", "..."}


def test_every_environment_variable_and_no_other():
    named = {
        name for path in PACKAGE.rglob("*.py") for name in re.findall(r'"(THUNDER_GEMM_EX_\w+)"', path.read_text())
    }
    assert {x for x in first_cells(COMMANDS) if x.isupper()} == named


@pytest.mark.parametrize("name", [x for x in gx.__all__ if x != "__version__"])
def test_every_public_name_has_its_place(name):
    assert re.search(rf":: thunder_gemm_ex\.{name}$", API, re.MULTILINE)


@pytest.mark.parametrize("name", re.findall(r":: (thunder_gemm_ex\.[\w.]+)$", API, re.MULTILINE))
def test_every_name_there_exists(name):
    module, _, attribute = name.rpartition(".")
    import importlib

    assert hasattr(importlib.import_module(module), attribute)
