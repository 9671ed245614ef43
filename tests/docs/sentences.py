"""The sentences that the package says, read off its sources: `…` stands where a value is put in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "thunder_gemm_ex"
HOLE = "…"


def raised(*paths: Path) -> set[str]:
    """The message of every `raise Error("...")` in these Python files."""
    return {text for path in paths for node in ast.walk(_tree(path)) for text in _messages(node)}


def said(*paths: Path, words: int = 3) -> set[str]:
    """Every string of at least so many words in these Python files that is neither a docstring nor raised."""
    found: set[str] = set()
    for path in paths:
        tree = _tree(path)
        found |= {text for text in _strings(tree, skip=_docstrings(tree)) if _words(text) >= words}
    return found - raised(*paths)


def literals(expression: str, *paths: Path, words: int = 3) -> set[str]:
    """The string literals of so many words in the C++ statements of these files that begin as `expression` matches."""
    found = set()
    for path in paths:
        source = re.sub(r"^\s*(//|#include).*$", "", path.read_text(), flags=re.MULTILINE)
        for statement in source.split(";"):
            start = re.search(expression, statement)
            if start:
                found |= set(re.findall(r'"((?:[^"\\]|\\.)*)"', statement[start.start() :]))
    return {text.replace('\\"', '"').strip() for text in found if _words(text) >= words}


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _words(text: str) -> int:
    return len(re.findall(r"[A-Za-z]{2,}", text))


def _messages(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        for argument in node.exc.args:
            text = _text(argument)
            if text is not None and _words(text):
                yield text


def _docstrings(tree: ast.Module) -> set[int]:
    """Identities of the strings that are statements of their own."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _strings(node: ast.AST, skip: set[int]) -> Iterator[str]:
    """The strings below a node, each f-string as one."""
    text = None if id(node) in skip else _text(node)
    if text is not None:
        yield text
        node = ast.Tuple([x.value for x in getattr(node, "values", ()) if isinstance(x, ast.FormattedValue)])
    for child in ast.iter_child_nodes(node):
        if id(child) not in skip:
            yield from _strings(child, skip)


def _text(node: ast.AST) -> str | None:
    """A string with its values left open, None where the node is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) if isinstance(value, ast.Constant) else HOLE for value in node.values)
    return None
