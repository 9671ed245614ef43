"""`python -m thunder_gemm_ex explain`: a user's script, run in a process of its own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from thunder_gemm_ex.cli import main

SCRIPT = """
import sys

import thunder
import torch
from helper import width


def compiled(x, w):
    return torch.relu(x) @ w.t()


def main():
    print("the script speaks", *sys.argv[1:])
    thunder.jit(compiled)(torch.randn(3, width), torch.randn(5, width))


def nothing():
    pass


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "helper.py").write_text("width = 4\n")
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_a_script_is_run_and_explained(script, tmp_path):
    """In a process of its own, from another folder; what the script prints stays off stdout."""
    page = tmp_path / "page.html"
    command = [sys.executable, "-W", "ignore", "-m", "thunder_gemm_ex", "explain", "--json", "--html", str(page)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command += [str(script), "loudly"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (row,) = data["rows"]
    assert (row["decision"], row["where"]) == ("claimed", f"{script}:10")
    assert "the script speaks loudly" in done.stderr
    assert "script.py:10" in page.read_text()


def run(capsys, *argv):
    status = main(["explain", *map(str, argv)])
    return status, capsys.readouterr().out


def test_a_function_of_it_is_called(script, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    status, out = run(capsys, f"{script}:main")
    assert status == 0
    assert "script.py:10" in out


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("{}:nothing", "compiled nothing with gemm_ex"),
        ("{}:absent", "has no function named absent"),
        ("{}.gone", "there is no file"),
    ],
)
def test_what_cannot_be_explained_is_said_with_status_1(script, capsys, program, sentence):
    status, out = run(capsys, program.format(script))
    assert status == 1
    assert sentence in " ".join(out.split())


def test_a_script_that_ends_badly_is_said(tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("raise SystemExit(3)")
    status, out = run(capsys, path)
    assert status == 1
    assert "ended with exit status 3" in " ".join(out.split())


def test_a_script_that_ends_itself_well_is_explained(script, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    script.write_text(script.read_text() + "    raise SystemExit(0)\n")
    status, _ = run(capsys, script)
    assert status == 0


def test_a_page_that_cannot_be_written_is_said(script, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    status, out = run(capsys, "--html", script.parent / "no" / "page.html", f"{script}:main")
    assert status == 1
    assert "cannot be written" in " ".join(out.split())


def test_afterwards_the_executor_is_out_of_the_defaults_again(script, capsys, monkeypatch):
    import thunder

    import thunder_gemm_ex as gx

    monkeypatch.delitem(sys.modules, "helper", raising=False)
    run(capsys, f"{script}:main")
    assert gx.gemm_ex not in thunder.get_default_executors()


def test_subgraphs_of_thunderfx_are_placed(tmp_path, capsys):
    path = tmp_path / "fx.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            from thunder.dynamo import thunderfx
            import thunder_gemm_ex as gx

            def f(x, w):
                return torch.relu(x) @ w.t()

            thunderfx(f, executors=gx.executors())(torch.randn(3, 4), torch.randn(5, 4))
            """
        )
    )
    status, out = run(capsys, path)
    assert status == 0
    assert "fx.py:7" in out
