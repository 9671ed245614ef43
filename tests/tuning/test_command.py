"""`python -m thunder_gemm_ex tune` on the double."""

import json

import pytest

from thunder_gemm_ex.__main__ import main
from thunder_gemm_ex.tuning.store import default_path

PROGRAM = """
import torch
from thunder_gemm_ex.engines import choose
def step():
    choose.run_gemm(torch.randn(24, 32), torch.randn(16, 32), "m k, n k -> n m")
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_the_command_tunes_a_file(everywhere, program, capsys):
    assert main(["tune", f"{program}:step", "--rounds", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"]
    assert len(data["rows"]) == 1
    assert default_path().exists()


def test_the_command_says_what_was_found(everywhere, program, capsys):
    assert main(["tune", f"{program}:step", "--rounds", "1", "--no-store"]) == 0
    out = capsys.readouterr().out
    assert "1 plan(s) on host, not kept" in out
    assert "rows 24 cols 16 k 32 batch 1 float32" in out


@pytest.mark.parametrize(
    ("argument", "message"), [("missing.py", "there is no file missing.py"), ("PROGRAM:walk", "no function named walk")]
)
def test_the_command_says_what_is_missing(everywhere, program, argument, message, capsys):
    assert main(["tune", argument.replace("PROGRAM", program), "--json"]) == 1
    assert message in json.loads(capsys.readouterr().out)["error"]


def test_a_program_without_products_is_said(everywhere, tmp_path, capsys):
    path = tmp_path / "empty.py"
    path.write_text("def main():\n    pass\n")
    assert main(["tune", str(path), "--json"]) == 1
    assert "nothing to tune" in json.loads(capsys.readouterr().out)["error"]
