"""The build itself: a wheel holds the extension, or there is no wheel and one sentence says why."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(directory, **environment):
    """`setup.py bdist_wheel` on a copy of the build files and an empty package, with `environment` on top."""
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, directory)
    (directory / "README.md").write_text("x")
    package = directory / "thunder_gemm_ex"
    package.mkdir()
    shutil.copy(ROOT / "thunder_gemm_ex" / "_version.py", package)
    (package / "__init__.py").touch()
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", "out"]
    return subprocess.run(command, cwd=directory, env=os.environ | environment, capture_output=True, text=True)


def with_source(directory, code="int x;"):
    (directory / "csrc").mkdir()
    (directory / "csrc" / "module.cc").write_text(code)


def test_without_a_compiler_the_build_fails_in_one_sentence(tmp_path):
    with_source(tmp_path)
    done = build(tmp_path, CXX="no-such-compiler")
    assert done.returncode != 0
    assert "no C++ compiler named 'no-such-compiler' on PATH; install g++" in done.stderr
    assert not list(tmp_path.glob("out/*.whl"))


def test_code_that_does_not_compile_gives_no_wheel(tmp_path):
    with_source(tmp_path, "this is no C++")
    done = build(tmp_path)
    assert done.returncode != 0
    assert "the C++ extension did not compile" in done.stderr
    assert not list(tmp_path.glob("out/*.whl"))


def test_missing_sources_give_no_wheel(tmp_path):
    done = build(tmp_path)
    assert done.returncode != 0
    assert "csrc/ holds no C++ sources" in done.stderr


def test_asked_for_a_wheel_without_the_extension_is_built(tmp_path):
    done = build(tmp_path, THUNDER_GEMM_EX_NO_EXT="1")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("out/*.whl")
    assert "-py3-none-" in wheel.name


def test_the_wheel_holds_the_extension(tmp_path):
    with_source(tmp_path)
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("out/*.whl")
    assert "-py3-none-linux" in wheel.name
    assert "thunder_gemm_ex/_lt.so" in zipfile.ZipFile(wheel).namelist()


def test_a_module_that_is_gone_is_not_in_the_next_wheel(tmp_path):
    stale = tmp_path / "build" / "lib" / "thunder_gemm_ex"
    stale.mkdir(parents=True)
    (stale / "gone.py").touch()
    done = build(tmp_path, THUNDER_GEMM_EX_NO_EXT="1")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("out/*.whl")
    assert "thunder_gemm_ex/gone.py" not in zipfile.ZipFile(wheel).namelist()
