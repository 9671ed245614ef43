"""The command line, run in this process: what it prints, what it returns, what it says when something is missing."""

import argparse
import json
import types

import pytest
import torch

import thunder_gemm_ex as gx
from thunder_gemm_ex.cli import demo as demo_module
from thunder_gemm_ex.cli import discover, main
from thunder_gemm_ex.cli import doctor as doctor_module
from thunder_gemm_ex.cli._cases import Case, cases
from thunder_gemm_ex.programs import mistral_rope, neva_g23

COMMANDS = discover()


@pytest.fixture
def run(capsys):
    """Runs the command line; returns (exit status, stdout)."""

    def call(*argv):
        status = main(argv)
        return status, capsys.readouterr().out

    return call


def stopped(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    return stop.value.code, capsys.readouterr()


def test_version(capsys):
    status, printed = stopped(capsys, "--version")
    assert status == 0
    assert printed.out == f"thunder_gemm_ex {gx.__version__}\n"


def test_help_names_every_command(capsys):
    status, printed = stopped(capsys, "--help")
    assert status == 0
    assert {"doctor", "demo", "bench"} <= {command.name for command in COMMANDS}
    assert all(f"\n    {command.name} " in printed.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_with_an_example_and_json(capsys, command):
    status, printed = stopped(capsys, command.name, "--help")
    assert status == 0
    assert f"example: python -m thunder_gemm_ex {command.name}" in printed.out
    assert "--json" in printed.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_says_what_its_exit_statuses_mean(capsys, command):
    _, printed = stopped(capsys, command.name, "--help")
    assert "Exit status 0 when" in printed.out
    assert "Else 1, or 2" in printed.out


@pytest.mark.parametrize("line", ["explain --json gone.py", "tune --json gone.py", "bench no-such-suite --json"])
def test_what_fails_is_one_json_object_too(run, line):
    status, out = run(*line.split())
    found = json.loads(out)
    assert status == 1
    assert found["ok"] is False
    assert found["error"].endswith(".")


@pytest.mark.parametrize("argv", [(), ("paint",), ("doctor", "--colour")])
def test_what_is_not_understood_has_status_2(capsys, argv):
    status, printed = stopped(capsys, *argv)
    assert status == 2
    assert printed.out == ""
    assert "usage: python -m thunder_gemm_ex" in printed.err


def test_doctor_json(run):
    status, out = run("doctor", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["ok"] is True
    assert found["engines"]["aten"] == {"usable": True, "reason": None}
    assert found["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert {"python", "lightning-thunder", "apache-tvm-ffi"} <= set(found["versions"])


def test_doctor_says_what_a_gpu_lacks(run):
    _, out = run("doctor", "--json")
    found = json.loads(out)
    assert found["engines"]["cublaslt"]["usable"] == (found["gpu"]["missing"] == [])
    if not torch.cuda.is_available():
        assert any("CUDA" in sentence for sentence in found["gpu"]["missing"])


def test_doctor_text(run):
    status, out = run("doctor")
    assert status == 0
    assert "aten" in out
    assert out.rstrip().endswith("executors=gx.executors(): works")


def test_doctor_finds_wrong_values(run, monkeypatch):
    monkeypatch.setattr(doctor_module, "small_program_error", lambda: 0.5)
    status, out = run("doctor", "--json")
    assert status == 1
    assert json.loads(out)["check"]["error"] == "values differ from eager's by 0.5"


def test_doctor_survives_an_executor_that_raises(run, monkeypatch):
    def broken():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(gx, "executors", broken)
    status, out = run("doctor")
    assert status == 1
    assert "does NOT work: RuntimeError: no such thing" in out


def test_doctor_without_an_extension_says_so(monkeypatch):
    def broken():
        raise ImportError("no such symbol")

    monkeypatch.setattr("thunder_gemm_ex.engines.cublaslt.status", broken)
    found = doctor_module.extension()
    assert found == {"loaded": False, "reason": "ImportError: no such symbol"}
    assert doctor_module.missing_for_gpu(found)[0] == "ImportError: no such symbol"


def test_doctor_says_how_to_get_a_cublaslt():
    sentences = doctor_module.missing_for_gpu({"loaded": True, "library": None, "missing": ["no cublasLt found"]})
    assert sentences == ["no cublasLt found", "pip install 'thunder-gemm-ex[cu12]' brings a cublasLt"]


@pytest.fixture
def small_cases(monkeypatch):
    """The demo's programs at sizes that take no time, with Thunder's default executors (no C++ to compile)."""
    small = [
        Case("neva", "tiny", neva_g23.program(), neva_g23.inputs(scale=320, requires_grad=True), "default"),
        Case("rope", "tiny", mistral_rope.rope, mistral_rope.inputs(seq=4, requires_grad=True), "default"),
    ]
    monkeypatch.setattr("thunder_gemm_ex.cli._cases.cases", lambda device: small)
    monkeypatch.setattr(demo_module, "ROUNDS", 2)


@pytest.mark.usefixtures("small_cases")
def test_demo_json(run):
    status, out = run("demo", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["ok"] is True
    neva, rope = found["programs"]
    assert any("matmul" in line for line in neva["before"]["forward"])
    assert sum("gemm(" in line for line in neva["after"]["forward"] + neva["after"]["backward"]) == 3
    assert neva["engines"] == ["aten"]
    assert set(neva["times"]) == {"eager", "Thunder"}
    assert not any("matmul" in line or "gemm(" in line for line in rope["after"]["forward"])


@pytest.mark.usefixtures("small_cases")
def test_demo_text(run):
    status, out = run("demo")
    assert status == 0
    assert "x as fast as Thunder" in out
    assert "engine: aten" in out
    assert "every value and gradient is eager's." in out


@pytest.mark.usefixtures("small_cases")
def test_demo_reports_wrong_values(run, monkeypatch):
    monkeypatch.setattr("thunder_gemm_ex.cli._check.worst_error", lambda got, want: 1.0)
    status, out = run("demo")
    assert status == 1
    assert "WRONG VALUES" in out


def test_the_demo_has_both_seed_programs_at_their_sizes():
    neva, cos_sin, rope = cases("cpu")
    assert [list(t.shape) for t in neva.inputs] == [[384, 2, 432], [160, 432]]
    assert cos_sin.inputs[1].shape[1] == 4096
    assert all(t.requires_grad for t in (*neva.inputs, *rope.inputs[:3]))


def test_without_a_compiler_the_demo_asks_for_no_torchcompile(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert {case.fuser for case in cases("cpu")} == {"default"}


def test_a_long_trace_is_cut_around_its_contractions():
    lines = [f"t{i} = add()" for i in range(40)]
    lines[20] = "t20 = torch.matmul(x, y)"
    shown = demo_module.shorten(lines).splitlines()
    assert shown == [*lines[:3], "... 16 more", *lines[19:22], "... 18 more"]


def test_bench_without_its_suites_says_where_they_are(run, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("thunder_gemm_ex.cli.bench.importlib", types.SimpleNamespace(import_module=absent))
    status, out = run("bench")
    assert status == 1
    assert out == "benchmarks/ is not here; run this in a checkout of thunder_gemm_ex.\n"


def test_commands_are_complete():
    for command in COMMANDS:
        assert command.example.startswith(command.name)
        assert callable(command.run)
        if command.arguments is not None:
            command.arguments(argparse.ArgumentParser())
