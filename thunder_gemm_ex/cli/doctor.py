"""`doctor`: what is installed, what was found, what works. It runs one small program rather than trusting versions."""

import argparse
import importlib
import importlib.metadata
import platform
from collections.abc import Iterator
from typing import Any

from thunder_gemm_ex.cli._command import Result, command

DISTRIBUTIONS = ("thunder-gemm-ex", "lightning-thunder", "torch", "apache-tvm-ffi")
NVFUSER_PREFIX = "nvfuser"
# Under the headings "engines" and "for a GPU".
SHOWN_ELSEWHERE = ("usable", "missing")


@command("doctor", "say what is installed, what is missing and whether the executor works", example="doctor --json")
def doctor(args: argparse.Namespace) -> Result:
    """Exit status 0 when the default that needs nothing else (CPU tensors, the aten engine) gives right values."""
    check, status = small_program(), extension()
    missing = missing_for_gpu(status)
    data = {
        "ok": check["ok"],
        "check": check,
        "versions": versions(),
        "extension": status,
        "engines": {
            "aten": {"usable": check["ok"], "reason": check["error"]},
            "cublaslt": {"usable": not missing, "reason": missing[0] if missing else None},
        },
        "gpu": {"missing": missing},
    }
    return Result(check["ok"], data, render(data))


def versions() -> dict[str, str | None]:
    """Distribution -> version, None where it isn't installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in (*DISTRIBUTIONS, *nvfuser_distributions()):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def nvfuser_distributions() -> list[str]:
    """nvFuser's wheels carry CUDA's and torch's versions in their names."""
    names = (dist.metadata["Name"] or "" for dist in importlib.metadata.distributions())
    return sorted({name for name in names if name.lower().startswith(NVFUSER_PREFIX)})


def extension() -> dict[str, Any]:
    """What the cublaslt engine says about the compiled extension and the cublasLt it found."""
    try:
        engine = importlib.import_module("thunder_gemm_ex.engines.cublaslt")
        return dict(engine.status())
    except Exception as error:  # a doctor reports what is broken; it doesn't break
        return {"loaded": False, "reason": f"{type(error).__name__}: {error}"}


def missing_for_gpu(status: dict[str, Any]) -> list[str]:
    """One sentence for each thing without which the cublaslt engine can compute nothing here.

    Args:
        status: what `extension` returned.
    """
    import torch

    missing = list(status.get("missing", [status.get("reason")]))
    if torch.version.cuda is None:
        missing.append("this torch was built without CUDA")
    if status.get("loaded") and not status.get("library"):
        missing.append("pip install 'thunder-gemm-ex[cu12]' brings a cublasLt")
    return missing


def small_program() -> dict[str, Any]:
    """Compiles relu(x @ w.t()) with the executor on CPU; values and gradients must be eager's."""
    what = "relu(x @ w.t()) on cpu, forward and backward, executors=gx.executors()"
    try:
        worst = small_program_error()
    except Exception as error:  # reported: finding this out is what the command is for
        return {"what": what, "ok": False, "error": f"{type(error).__name__}: {error}"}
    wrong = None if worst < 1e-5 else f"values differ from eager's by {worst:.2g}"
    return {"what": what, "ok": wrong is None, "error": wrong}


def small_program_error() -> float:
    """The largest absolute difference from eager over the result and both gradients."""
    import thunder
    import torch

    import thunder_gemm_ex as gx

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w.t())

    seeded = torch.Generator().manual_seed(0)
    x, w = (torch.randn(shape, generator=seeded).requires_grad_() for shape in ((4, 8), (3, 8)))
    pairs = []
    for run in (thunder.jit(program, executors=gx.executors()), program):
        out = run(x, w)
        pairs.append((out, *torch.autograd.grad(out.sum(), (x, w))))
    return max(float((ours - eager).abs().max()) for ours, eager in zip(*pairs))


def render(data: dict[str, Any]) -> Any:
    """Sections of name and value, the verdict last."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    for title, values in sections(data):
        table.add_row(title)
        for name, value in values:
            table.add_row(f"  {name}", value)
    verdict = "works" if data["ok"] else f"does NOT work: {data['check']['error']}"
    return Group(table, Text(f"{data['check']['what']}: {verdict}"))


def sections(data: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(title, [(name, text)]) for each part of the report."""
    yield "versions", [(name, version or "not installed") for name, version in data["versions"].items()]
    found = {name: value for name, value in data["extension"].items() if name not in SHOWN_ELSEWHERE}
    yield "extension", [(name, str(value)) for name, value in found.items()]
    yield "engines", [(name, usability(engine)) for name, engine in data["engines"].items()]
    yield "for a GPU", [("missing", sentence) for sentence in data["gpu"]["missing"] or ["nothing"]]


def usability(engine: dict[str, Any]) -> str:
    """An engine's cell."""
    return "usable" if engine["usable"] else f"not usable: {engine['reason']}"
