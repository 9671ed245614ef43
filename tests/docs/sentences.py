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


def warned(*paths: Path) -> set[str]:
    """The message of every `warnings.warn("...")` in these Python files."""
    nodes = (node for path in paths for node in ast.walk(_tree(path)) if isinstance(node, ast.Call))
    texts = (text_of(node.args[0]) for node in nodes if ast.unparse(node.func) == "warnings.warn")
    return {text for text in texts if text is not None}


def literals(statement: str, *paths: Path, words: int = 3) -> set[str]:
    """The string literals of so many words in those C++ statements of these files in which `statement` matches."""
    found: set[str] = set()
    for path in paths:
        texts: list[str] = []

        def keep(literal: re.Match[str], texts: list[str] = texts) -> str:
            texts.append(literal[1].replace('\\"', '"').strip())
            return f'"{len(texts) - 1}"'

        source = re.sub(r"^\s*(//|#).*$", "", path.read_text(), flags=re.MULTILINE)
        source = re.sub(r'"((?:[^"\\]|\\.)*)"', keep, source)
        for part in source.split(";"):
            if re.search(statement, part):
                found |= {texts[int(number)] for number in re.findall(r'"(\d+)"', part)}
    return {text for text in found if _words(text) >= words}


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _words(text: str) -> int:
    """Words with a space between: an identifier is one."""
    return sum(bool(re.search("[A-Za-z]{2}|K=1", word)) for word in text.split())


def _messages(node: ast.AST) -> Iterator[str]:
    """What the exceptions that a statement raises are made with: `raise A("...")`, `raise found or A("...")`."""
    if not isinstance(node, ast.Raise) or node.exc is None:
        return
    for call in ast.walk(node.exc):
        if isinstance(call, ast.Call) and ast.unparse(call.func)[:1].isupper():
            yield from (text for text in map(text_of, call.args) if text is not None and _words(text))


def _docstrings(tree: ast.Module) -> set[int]:
    """Identities of the strings that are statements of their own."""
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(value) for value in statements if isinstance(value, ast.Constant)}


def _strings(node: ast.AST, skip: set[int]) -> Iterator[str]:
    """The strings below a node, each f-string as one."""
    text = None if id(node) in skip else text_of(node)
    if text is not None:
        yield text
        node = ast.Tuple([x.value for x in getattr(node, "values", ()) if isinstance(x, ast.FormattedValue)])
    for child in ast.iter_child_nodes(node):
        if id(child) not in skip:
            yield from _strings(child, skip)


def text_of(node: ast.AST) -> str | None:
    """A string with its values left open, None where the node is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) if isinstance(value, ast.Constant) else HOLE for value in node.values)
    return None
