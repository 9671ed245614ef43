"""`demo`: both seed programs before and after, checked against eager, and how their times compare."""

import argparse
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from thunder_gemm_ex.cli._command import Result, command

if TYPE_CHECKING:
    from thunder_gemm_ex.cli._cases import Case
    from thunder_gemm_ex.cli._check import Step

# A trace longer than this is cut in the terminal; --json has all of it.
SHOWN_LINES = 12
CONTRACTIONS = ("matmul", "linear", "gemm")
ROUNDS = 15


@command("demo", "run both seed programs with the executor: traces, checks, times", example="demo --json")
def demo(args: argparse.Namespace) -> Result:
    """Exit status 0 when every value and gradient is eager's, within the rounding of its dtype."""
    import torch

    from thunder_gemm_ex.cli._cases import cases

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with progress(args.json) as tell:
        programs = [run_case(case, tell) for case in cases(device)]
    ok = all(p["check"]["ok"] for p in programs)
    data = {
        "ok": ok,
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "programs": programs,
    }
    return Result(ok, data, None if args.json else render(data))


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function that says what is going on, on stderr; silent for --json."""
    from rich.console import Console

    console = Console(stderr=True, quiet=quiet)
    with console.status("") as status:
        yield status.update


def run_case(case: "Case", tell: Callable[[str], None]) -> dict[str, Any]:
    """Compiles one case every way, checks ours against eager, times all of them."""
    import thunder_gemm_ex as gx
    from thunder_gemm_ex.cli._check import Step, tolerance, worst_error
    from thunder_gemm_ex.cli._traces import trace_lines

    tell(f"{case.name}: compiling and checking")
    compiled = contenders(case)
    step = Step.of(case.program, case.inputs)
    want = step.run(case.program)
    errors = {name: worst_error(step.run(fn), want) for name, fn in compiled.items()}
    error, limit = errors["gemm_ex"], tolerance(want)
    tell(f"{case.name}: timing")
    rows = gx.explain(compiled["gemm_ex"]).rows
    return {
        "name": case.name,
        "sizes": case.sizes,
        "before": dict(zip(("forward", "backward"), trace_lines(compiled["Thunder"]))),
        "after": dict(zip(("forward", "backward"), trace_lines(compiled["gemm_ex"]))),
        "check": {"ok": error <= limit, "error": error, "tolerance": limit},
        "times": times({"eager": case.program, **compiled}, step),
        "engines": sorted({row.engine for row in rows if row.engine}),
        "rows": [{"op": r.op, "decision": r.decision, "spec": r.spec, "reason": r.reason} for r in rows],
    }


def contenders(case: "Case") -> dict[str, Callable[..., Any]]:
    """Name -> compiled program: Thunder as it is, Thunder with the same fuser as ours, and ours."""
    import thunder
    from thunder.executors.torch_compile import torch_compile_ex

    import thunder_gemm_ex as gx

    found = {"Thunder": thunder.jit(case.program)}
    if case.fuser == "torchcompile":
        found["Thunder + torchcompile"] = thunder.jit(case.program, executors=[torch_compile_ex])
        found["gemm_ex"] = thunder.jit(case.program, executors=[gx.gemm_ex, torch_compile_ex])
    else:
        found["gemm_ex"] = thunder.jit(case.program, executors=gx.executors())
    return found


def times(programs: dict[str, Callable[..., Any]], step: "Step") -> dict[str, float]:
    """How many times ours goes into each other's time: 1.5 means that ours is 1.5 times as fast."""
    import torch

    from thunder_gemm_ex.cli._interleave import interleaved, median_ratio

    candidates: dict[str, Callable[[], object]] = {
        name: functools.partial(step.run, program) for name, program in programs.items()
    }
    finish = torch.cuda.synchronize if step.inputs[0].is_cuda else None
    rounds = list(interleaved(candidates, rounds=ROUNDS, finish=finish))
    return {name: median_ratio(rounds, name, "gemm_ex") for name in programs if name != "gemm_ex"}


def render(data: dict[str, Any]) -> Any:
    """One block per program: traces side by side, then check, engines and ratios."""
    from rich.console import Group
    from rich.text import Text

    blocks = [part for program in data["programs"] for part in render_program(program)]
    verdict = "every value and gradient is eager's" if data["ok"] else "WRONG VALUES, see above"
    return Group(*blocks, Text(f"On {data['device']}, torch {data['torch']}: {verdict}."))


def render_program(program: dict[str, Any]) -> Iterator[Any]:
    """The parts of one program's block."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{program['name']}: {program['sizes']}", title_justify="left", show_lines=True)
    table.add_column("")
    table.add_column("Thunder", overflow="fold")
    table.add_column("Thunder with gemm_ex", overflow="fold")
    for direction in ("forward", "backward"):
        before, after = program["before"][direction], program["after"][direction]
        if before or after:
            table.add_row(direction, Text(shorten(before)), Text(shorten(after)))
    yield table
    check = program["check"]
    said = "equal to eager's" if check["ok"] else "NOT eager's"
    yield Text(f"  values: {said} (largest difference {check['error']:.1e} of {check['tolerance']:.1e} allowed)")
    yield Text(f"  engine: {', '.join(program['engines']) or 'none, the fuser took all of it in'}")
    ratios = ", ".join(f"{ratio:.2f}x as fast as {name}" for name, ratio in program["times"].items())
    yield Text(f"  time:   {ratios}\n")


def shorten(lines: list[str]) -> str:
    """A short trace whole; of a long one the first lines, each contraction with its neighbours, and counts between."""
    if len(lines) <= SHOWN_LINES:
        return "\n".join(lines)
    near = [any(word in line for word in CONTRACTIONS) for line in lines]
    kept = [i < 3 or any(near[max(0, i - 1) : i + 2]) for i in range(len(lines))]
    shown: list[str] = []
    for keep, group in itertools.groupby(zip(kept, lines), key=lambda pair: pair[0]):
        part = [line for _, line in group]
        shown += part if keep else [f"... {len(part)} more"]
    return "\n".join(shown)
