"""From a spec and tensors to a call of the cublaslt engine, or the reason why there is none.

Beside `choose`, which asks here for every signature once; what comes back is called from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import torch

from thunder_gemm_ex.engines import cublaslt, recording
from thunder_gemm_ex.engines.numerics import flags_reader
from thunder_gemm_ex.engines.terms import Compute
from thunder_gemm_ex.spec import Contraction

PLAIN = (torch.Tensor, torch.nn.Parameter)


# (run, new, flags): run(a, b, new(), flags()) is 0 and has computed where a and b are as they were when this was decided;
# the extension compares shapes, strides, dtypes and devices, and sees where a neg bit may be.
Guess = tuple[Callable[..., int], Callable[[], torch.Tensor], Callable[[], int]]


class Found(NamedTuple):
    """What was decided for one signature. `run` is None where the engine declined, for `reason`.

    run(a, b, bias, c, alpha, beta) computes. `guess` is None where there is more to do than one call. `calls` of the
    library and elements that are copied before them, by operand: for reports.
    """

    run: Compute | None = None
    detail: str = ""
    reason: str = ""
    guess: Guess | None = None
    calls: int = 1
    copies: Mapping[str, int] = MappingProxyType({})


def decide(
    spec: Contraction,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    fallback: Compute,
    *,
    anywhere: bool = False,
    numerics: str = "torch",
) -> Found:
    """How cuBLASLt computes `spec`; `fallback(a, b, bias, c, alpha, beta)` is what a call that it declines goes to.

    `anywhere`: also where no CUDA device is, for a library that computes in host memory. `numerics`: one of
    `engines.numerics.MODES`; in "batch_invariant" nothing falls back, since nothing else promises that: RuntimeError.
    """
    flags = flags_reader(a.dtype, numerics)
    empty = 0 in spec.sizes.values()  # whoever computes nothing keeps every promise
    invariant = numerics == "batch_invariant" and not empty
    reason = refusal(spec, a, anywhere=anywhere)
    if reason:
        return Found(refusing(reason) if invariant else None, reason=reason)
    while before_first:
        before_first.pop()()
    bound = cublaslt.bind(spec.a, spec.b, spec.bias, spec.out, dense(spec))
    shape = spec.shape(spec.out)
    plan = bound.explain(a, b, new_output(a, shape), bias, None, flags())
    copy = plan.get("copy", {})
    if plan["declined"] and not copy:
        return Found(refusing(plan["declined"]) if invariant else None, reason=plan["declined"])
    if not copy and not invariant and _aten_is_faster(bound, a, b, shape, bias, flags()):
        return Found(reason="ATen was faster when this problem was tuned")
    if invariant:
        fallback = refusing("this call is declined where others like it were not: see alignment and strides")
    run = _call(bound, shape, flags, fallback, copy)
    if copy:
        plan = _plan_of_copies(bound, a, b, shape, bias, flags(), copy)
        copies = {name: {"a": a, "b": b}[name].numel() for name in copy}
        return Found(run, f"{_detail(plan)}, after a copy of {' and '.join(copy)}", "", None, plan["calls"], copies)
    return Found(run, _detail(plan), "", _guess(bound, a, shape, flags), plan["calls"])


# Keys of plans that ATen computes faster, as tuning found out; `tuning` fills it.
aten_faster: set[str] = set()
# Called once, before the first decision: `tuning` reads here what was tuned in earlier processes.
before_first: list[Callable[[], object]] = []


def _aten_is_faster(
    bound: cublaslt.Bound,
    a: torch.Tensor,
    b: torch.Tensor,
    shape: Sequence[int],
    bias: torch.Tensor | None,
    flags: int,
) -> bool:
    if not aten_faster:
        return False
    try:
        return bound.candidates(a, b, new_output(a, shape), bias, None, flags, count=1)["key"] in aten_faster
    except ValueError:  # several plans: never tuned
        return False


def refusal(spec: Contraction, a: torch.Tensor, *, anywhere: bool = False) -> str:
    """Why cuBLASLt is not asked for this contraction, or "" if it is."""
    if type(a) not in PLAIN:
        return f"{type(a).__name__} has no memory of its own that a library call could read"
    if a.dtype not in cublaslt.DTYPES:
        return f"{a.dtype} is not among the types that the cublaslt engine computes"
    if 0 in spec.sizes.values():
        return "a dimension has size 0: there is nothing to multiply"
    library = cublaslt.status()
    return "" if library["usable"] or anywhere else "; ".join(library["missing"])


def dense(spec: Contraction) -> list[int]:
    """Sizes by atom, as the extension wants them."""
    return [spec.sizes.get(x, 1) for x in range(max(spec.sizes, default=-1) + 1)]


def copied(tensor: torch.Tensor, strides: list[int] | None) -> torch.Tensor:
    """The tensor, or a copy of it that lies as the planner asks."""
    if strides is None:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _plan_of_copies(
    bound: cublaslt.Bound,
    a: torch.Tensor,
    b: torch.Tensor,
    shape: Sequence[int],
    bias: torch.Tensor | None,
    flags: int,
    copy: Mapping[str, list[int]],
) -> dict[str, Any]:
    def as_copied(name: str, tensor: torch.Tensor) -> torch.Tensor:
        strides = copy.get(name, tensor.stride())
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)

    return bound.explain(as_copied("a", a), as_copied("b", b), a.new_empty(shape), bias, None, flags)


def _detail(plan: dict[str, Any]) -> str:
    detail = "{layout}, {calls} call(s) of batch {batch}, rows {rows} cols {cols} k {k}".format(**plan)
    return f"{detail}, {_algorithm(plan['algorithm'])}" if "algorithm" in plan else detail


def _algorithm(found: dict[str, Any]) -> str:
    """The library's own numbers of an algorithm, and who chose it."""
    numbers = " ".join(
        f"{name.replace('_', '-')} {found[name]}" for name in ("tile", "stages", "split_k") if name in found
    )
    name = f"algorithm {found.get('id', 'without a number')}{f' ({numbers})' if numbers else ''}"
    return f"{name}, {'tuned' if found['chosen'] == 'tuned' else 'as the heuristic offers'}"


def refusing(reason: str) -> Callable[..., NoReturn]:
    """A call that raises RuntimeError: nothing but cuBLASLt promises batch invariance, and it declines for `reason`."""

    def refuse(*_args: object) -> NoReturn:
        raise RuntimeError(
            f'numerics is "batch_invariant", which no other engine promises, but cuBLASLt declines: {reason}; '
            'use "strict" or "torch"'
        )

    return refuse


def new_output(a: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Memory for a product: of a's type, contiguous."""
    return a.new_empty(shape)


def _call(
    bound: cublaslt.Bound,
    shape: Sequence[int],
    flags: Callable[[], int],
    fallback: Compute,
    copy: Mapping[str, list[int]],
) -> Compute:
    run, copy_a, copy_b = bound.run, copy.get("a"), copy.get("b")

    def call(
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 0,
    ) -> torch.Tensor:
        # A subclass looks like the tensors that were decided for and may mean something else.
        if type(a) not in PLAIN or type(b) not in PLAIN:
            return fallback(a, b, bias, c, alpha, beta)
        # What explain found is of a call without c; another c or alignment may still be declined, and then ATen computes.
        # The neg bit is a view's property that no stride shows; the library would read the memory without it.
        if a.is_neg() or b.is_neg() or (bias is not None and bias.is_neg()) or (c is not None and c.is_neg()):
            return fallback(a, b, bias, c, alpha, beta)
        out = new_output(a, shape)
        x, y = (copied(a, copy_a), copied(b, copy_b)) if copy else (a, b)
        scale_c = 0.0 if c is None else float(beta)
        if recording.active:
            made = recording.Call(bound, x, y, out, bias, c, float(alpha), scale_c, flags(), fallback)
            recording.note(made)
        if run(x, y, out, bias, c, float(alpha), scale_c, flags()):
            return fallback(a, b, bias, c, alpha, beta)
        return out

    return call


def _guess(bound: cublaslt.Bound, like: torch.Tensor, shape: Sequence[int], flags: Callable[[], int]) -> Guess:
    return bound.plain, outputs(like, shape), flags


# What Inductor's own programs allocate with: past the dispatcher, in half of empty_like's time.
_allocators = getattr(torch._C._dynamo, "guards", None)
_empty_cpu = getattr(_allocators, "_empty_strided_cpu", None)
_empty_cuda = getattr(_allocators, "_empty_strided_cuda", None)


def outputs(like: torch.Tensor, shape: Sequence[int]) -> Callable[[], torch.Tensor]:
    """A function that does `new_output(like, shape)`, by the quickest way that this torch has.

    Torch's allocator for CUDA takes the device that is current; where that is another one than `like`'s, now or at a call,
    the extension sees an output elsewhere and refuses it.
    """
    template = like.detach().new_empty(shape)
    allocate = _empty_cpu if like.device.type == "cpu" else None
    if like.is_cuda and like.device.index == torch.cuda.current_device():
        allocate = _empty_cuda
    if allocate is not None:
        return functools.partial(allocate, tuple(template.shape), template.stride(), like.dtype)
    template.untyped_storage().resize_(0)  # it only says what the output is like
    return functools.partial(torch.empty_like, template)
