"""What the pages say beside their code is true: commands parse, files exist, an error is as quoted, the index is whole."""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest
import torch

import thunder_gemm_ex as gx
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from thunder_gemm_ex.cli import parser

# Programs that a page may call besides Python's modules.
_KNOWN = {"pip", "pytest", "ruff", "mypy", "bash", ".", "sphinx-build", "cp"}
_OURS = r"(?:python(?: -W ignore)? -m thunder_gemm_ex|thunder-gemm-ex)"


def commands(page: str) -> list[str]:
    """The commands in a page's shell blocks, and calls of our command line in its sentences."""
    lines = [line for block in blocks(page) if block.language == "bash" for line in block.text.splitlines()]
    in_blocks = [part.strip() for line in lines for part in re.sub(r"(^|\s)#.*", "", line).split("&&") if part.strip()]
    return in_blocks + re.findall(rf"`({_OURS} [a-z][^`]*)`", page)


def fault(command: str) -> str:
    """What is wrong with a command, "" if nothing is."""
    ours = re.fullmatch(rf"{_OURS} (.*)", command)
    if ours:
        try:
            parser().parse_args(shlex.split(ours[1]))
        except SystemExit:
            return "its arguments are not understood"
        return ""
    module = re.match(r"python -m ([\w.]+)", command)
    if module:
        return "" if importlib.util.find_spec(module[1]) else f"there is no module {module[1]}"
    program, *arguments = shlex.split(command)
    if program == "pytest":
        missing = [x for x in arguments if "/" in x and not (ROOT / x).exists()]
        return f"there is no {missing[0]}" if missing else ""
    return "" if program in _KNOWN else f"{program} is not a program that pages call"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_understood(page):
    assert [f"{x}: {fault(x)}" for x in commands(page.read_text()) if fault(x)] == []


@pytest.mark.parametrize(
    "command",
    [
        "python -m thunder_gemm_ex dokter",
        "thunder-gemm-ex tune train.py --candidate-s 3",
        "python -m tests.absent",
        "pytest tests/absent",
        "pyp install x",
    ],
)
def test_a_wrong_command_is_found(command):
    (found,) = commands(f"```bash\n{command}  # so\n```\n")
    assert fault(found)


def test_a_wrong_command_in_a_sentence_is_found():
    (found,) = commands("see `python -m thunder_gemm_ex explan x.py`.")
    assert fault(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page):
    named = re.findall(r"`((?:[\w.]+/)+(?:[\w.]+\.(?:py|cc|h|md|json)|))`", page.read_text())
    roots = (ROOT, ROOT / "thunder_gemm_ex", page.parent)
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_linked_exist(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_error_that_the_operators_page_quotes():
    quoted = re.search(r"`(unexpected .*?)`", (ROOT / "docs/operator.md").read_text())[1]
    q = torch.randn(2, 5, 3, 4)
    with pytest.raises(ValueError, match=re.escape(quoted)):
        gx.gemm(q, q, "b s h d, b t h? -> b h s t")


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    listed = {line for block in blocks(index) if block.language == "{toctree}" for line in block.text.splitlines()}
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in ROOT.glob("docs/**/*.md")}
    assert pages - {"index"} == {line for line in listed if line and not line.startswith(":")}
