"""Compiles csrc/*.cc with plain g++ into thunder_gemm_ex/_lt.so, a library that knows no CPython and no torch.

It is an apache-tvm-ffi module, so one wheel (py3-none-<platform>) serves every CPython and every torch. CUDA is
needed as headers only, which the build requirements bring.

Environment:
    CXX                     the compiler, g++ unless set
    THUNDER_GEMM_EX_NO_EXT  1: build without the extension (CUDA tensors then go to ATen)
    THUNDER_GEMM_EX_WERROR  1: warnings are errors (developers and CI)
"""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
NO_EXT = os.environ.get("THUNDER_GEMM_EX_NO_EXT") == "1"
INSTEAD = "set THUNDER_GEMM_EX_NO_EXT=1 to install without the extension"
# Each header that cublasLt.h leads to, and the build requirement that has it.
CUDA_HEADERS = {
    "cublasLt.h": "nvidia-cublas-cu12",
    "driver_types.h": "nvidia-cuda-runtime-cu12",
    "crt/host_defines.h": "nvidia-cuda-nvcc-cu12",
    "nv/target": "nvidia-cuda-cccl-cu12",
}


def cuda_include_dirs() -> list[str]:
    """One directory for each entry of CUDA_HEADERS, from the nvidia wheels or from CUDA_HOME."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations] if spec else []
    dirs = sorted(d for root in roots for d in root.glob("*/include"))
    if cuda_home := os.environ.get("CUDA_HOME"):
        dirs.append(Path(cuda_home, "include"))
    found = []
    for header, dist in CUDA_HEADERS.items():
        where = next((str(d) for d in dirs if (d / header).is_file()), None)
        if where is None:
            raise CompileError(f"thunder_gemm_ex: {header} not found; install {dist} or set CUDA_HOME, or {INSTEAD}.")
        if where not in found:
            found.append(where)
    return found


def compile_command(sources: list[str], output: str) -> list[str]:
    """The one g++ call. libtvm_ffi is linked by name: at run time the already imported one satisfies it."""
    from tvm_ffi import libinfo

    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise CompileError(f"thunder_gemm_ex: no C++ compiler named {compiler!r} on PATH; install g++, or {INSTEAD}.")
    flags = "-std=c++17 -O2 -fPIC -shared -pthread -fvisibility=hidden -Wall -Wextra".split()
    if os.environ.get("THUNDER_GEMM_EX_WERROR") == "1":
        flags.append("-Werror")
    headers = [str(d) for d in (*libinfo.include_paths(), *cuda_include_dirs())]
    # The same bytes wherever it is built: __FILE__ in an error's text does not name the build's folders.
    flags += [f"-ffile-prefix-map={folder}/=" for folder in (*headers, str(ROOT))]
    # -isystem: warnings in other people's headers are not ours.
    ours = ["-I", str(ROOT / "csrc")]
    theirs = [a for d in headers for a in ("-isystem", d)]
    libtvm_ffi = Path(libinfo.find_libtvm_ffi())
    link = ["-L", str(libtvm_ffi.parent), "-ltvm_ffi", "-ldl", "-Wl,-z,defs"]
    return [compiler, *flags, *ours, *theirs, *sources, "-o", output, *link]


class GxxExtension(build_ext):
    """build_ext without CPython's headers, flags or file suffix."""

    def get_ext_filename(self, fullname):
        return fullname.replace(".", os.sep) + ".so"

    def get_export_symbols(self, ext):
        return []

    def build_extension(self, ext):
        output = self.get_ext_fullpath(ext.name)
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        command = compile_command([str(ROOT / s) for s in ext.sources], output)
        print(" ".join(command), flush=True)
        if subprocess.run(command).returncode != 0:
            raise CompileError(f"thunder_gemm_ex: the C++ extension did not compile (output above); {INSTEAD}.")
        # `python -m thunder_gemm_ex` and `pytest` in a checkout import the checkout's package, so it needs one as well.
        if not self.inplace and (ROOT / ".git").exists():
            shutil.copy2(output, ROOT / self.get_ext_filename(ext.name))


class OneWheel(bdist_wheel):
    """Tagged py3-none-<platform>: the extension depends on the platform, not on the CPython."""

    def run(self):
        # A module that is gone from the sources must not come back out of an earlier build's folder.
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()

    def get_tag(self):
        _, _, platform = super().get_tag()
        return "py3", "none", platform


sources = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").glob("*.cc"))
if not sources and not NO_EXT:
    raise SystemExit(f"thunder_gemm_ex: csrc/ holds no C++ sources, so no extension can be built; {INSTEAD}.")
headers = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").glob("*.h"))

setup(
    ext_modules=[] if NO_EXT else [Extension("thunder_gemm_ex._lt", sources, depends=headers)],
    cmdclass={"build_ext": GxxExtension, "bdist_wheel": OneWheel},
)
