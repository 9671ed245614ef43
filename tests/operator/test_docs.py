"""The code of docs/operator.md runs as it stands there, block after block."""

import re
from pathlib import Path

import pytest
import torch

import thunder_gemm_ex as gx

PAGE = Path(__file__).parents[2] / "docs" / "operator.md"


def test_the_pages_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    scope = {}
    for block in blocks:
        # A compiled function's source has to be found: each block is compiled under the page's name.
        exec(compile(block, str(PAGE), "exec"), scope)
    assert scope["per_sample"].shape == (8, 3, 4)


def test_the_error_that_the_page_quotes():
    q = torch.randn(2, 5, 3, 4)
    quoted = re.search(r"`(unexpected .*?)`", PAGE.read_text())[1]
    with pytest.raises(ValueError, match=re.escape(quoted)):
        gx.gemm(q, q, "b s h d, b t h? -> b h s t")
