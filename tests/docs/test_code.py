"""Every block of Python in the documentation runs as it stands there, each page's from top to bottom in one namespace.

What a block prints is what the block of text right below it shows, `...` for anything. A block that begins with
`# on a GPU` is compiled, not run.
"""

from __future__ import annotations

import doctest
import linecache

import pytest

from tests.docs.pages import PAGES, Block, blocks, name_of

WITH_CODE = [page for page in PAGES if any(block.language == "python" for block in blocks(page.read_text()))]
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(blocks: list[Block], name: str, capsys) -> dict:
    """Run a page's blocks as one file of that name; AssertionError where one prints what its page does not show."""
    scope: dict = {"__name__": "__main__"}
    source = ""
    for block, below in zip(blocks, [*blocks[1:], Block("", "", 0)]):
        if block.language != "python":
            continue
        code = compile("\n" * source.count("\n") + block.text, name, "exec")
        source += f"{block.text}\n"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        if block.on_a_gpu:
            continue
        capsys.readouterr()
        exec(code, scope)
        printed = capsys.readouterr().out
        if below.language == "text":
            same = doctest.OutputChecker().check_output(below.text, printed, _SAME)
            assert same, f"the block in line {block.line} prints\n{printed}"
    return scope


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THUNDER_GEMM_EX_CACHE", str(tmp_path))
    run(blocks(page.read_text()), f"{page.stem}.py", capsys)


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", AssertionError),
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("```python\nx = 1\n```\n```python\nx.y\n```\n", AttributeError),
        ("```python\n# on a GPU\nx = (\n```\n", SyntaxError),
    ],
)
def test_code_that_is_wrong_is_found(page, error, capsys):
    with pytest.raises(error):
        run(blocks(page), "page.py", capsys)


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1, 2.5)\n```\n\n```text\n1 ...\n```\n",
        "```python\n# on a GPU\n1 / 0\n```\n",
        "```text\n1 / 0\n```\n",
    ],
)
def test_code_that_is_right_is_none(page, capsys):
    run(blocks(page), "page.py", capsys)
