"""The package as installed: metadata, console script, and an extension that binds to no one Python or torch."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thunder_gemm_ex as gx
from thunder_gemm_ex import _version, programs

ROOT = Path(__file__).parent.parent
EXTENSION = Path(gx.__file__).with_name("_lt.so")


@pytest.fixture(scope="module")
def installed():
    """The installed distribution, not the egg-info that building leaves in a checkout."""
    found = [dist for dist in importlib.metadata.distributions(name="thunder-gemm-ex") if dist.read_text("WHEEL")]
    return found[0] if found else pytest.skip("this checkout is not installed")


def test_the_version_is_in_one_place(installed):
    assert installed.version == _version.__version__ == gx.__version__


def test_the_changelog_is_about_this_version_or_the_next():
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_a_few_dependencies_and_no_more(installed):
    required = {line.split(";")[0].strip() for line in installed.requires if "extra ==" not in line}
    names = {line.split(">")[0].split("<")[0].split("=")[0] for line in required}
    assert names == {"lightning-thunder", "torch", "apache-tvm-ffi", "rich", "jinja2"}


@pytest.mark.parametrize("extra", ["test", "bench", "dev", "docs", "cu12"])
def test_extras(installed, extra):
    assert extra in installed.metadata.get_all("Provides-Extra")


@pytest.mark.parametrize("tool", ["ruff", "clang-format"])
def test_a_formatter_has_one_version_in_extras_and_hooks(tool):
    files = [(ROOT / name).read_text() for name in ("pyproject.toml", ".pre-commit-config.yaml")]
    pins = [re.findall(rf"{tool}==([\d.]+)", text) for text in files]
    assert all(pins)
    assert len({version for found in pins for version in found}) == 1


def test_python_versions(installed):
    assert set(installed.metadata["Requires-Python"].split(",")) == {">=3.10", "<3.14"}


def test_the_console_script_is_main(installed):
    (script,) = (entry for entry in installed.entry_points if entry.name == "thunder-gemm-ex")
    assert script.group == "console_scripts"
    assert callable(script.load())


def test_the_types_come_with_the_package(installed):
    assert [f for f in installed.files if str(f) == "thunder_gemm_ex/py.typed"]


def test_one_wheel_for_every_python(installed):
    tags = [line.split(": ")[1] for line in installed.read_text("WHEEL").splitlines() if line.startswith("Tag")]
    assert [tag.rsplit("-", 1)[0] for tag in tags] == ["py3-none"]


@pytest.mark.skipif(not EXTENSION.exists(), reason="built without the extension")
def test_the_extension_needs_neither_python_nor_torch_nor_cuda():
    needed = subprocess.run(["readelf", "-d", EXTENSION], capture_output=True, text=True, check=True).stdout
    libraries = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    assert "libtvm_ffi.so" in libraries
    assert not [name for name in libraries if any(other in name for other in ("python", "torch", "c10", "cu"))]


def test_importing_a_program_imports_no_thunder():
    code = (
        "import sys, types\n"
        "package = types.ModuleType('thunder_gemm_ex'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['thunder_gemm_ex'] = package\n"
        "from thunder_gemm_ex import programs\n"
        "[programs.load(name) for name in programs.NAMES]\n"
        "assert 'torch' in sys.modules and 'thunder' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, Path(gx.__file__).parent], check=True)


@pytest.mark.parametrize("name", programs.NAMES)
def test_every_program_runs_on_its_inputs(name):
    module = programs.load(name)
    small = {"neva_g23": {"scale": 32}, "mistral_rope": {"seq": 8}, "attention_bshd": {"b": 1, "s": 8}}.get(name, {})
    outputs = module.program()(*module.inputs(**small, requires_grad=True))
    assert any(t.requires_grad for t in (outputs if isinstance(outputs, tuple) else (outputs,)))


def test_an_unknown_program_is_named():
    with pytest.raises(ValueError, match="no program is called 'gpt'"):
        programs.load("gpt")
