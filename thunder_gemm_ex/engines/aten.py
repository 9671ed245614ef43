"""The ATen engine: a contraction written as one torch expression, made once and then only called.

For CPU tensors and every device that cuBLASLt does not serve. A contraction becomes the shortest expression of views and
one of linear, mm, bmm, matmul, addmm, baddbmm (or mul where nothing is summed); BLAS gets transposed operands as flags.
A view is a `.reshape` that copies only where eager's own matmul would have copied. The expression is Python source: it is
compiled once a signature, it is what the report shows, and a call runs it and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from thunder_gemm_ex.engines.arrange import aligned, arranged
from thunder_gemm_ex.engines.joined import Joined
from thunder_gemm_ex.engines.loop import label_to_loop, looped, without
from thunder_gemm_ex.engines.numerics import wider
from thunder_gemm_ex.engines.terms import Compute, Terms
from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.contraction import Atom, Dims

NAMES: dict[str, Callable[..., torch.Tensor]] = {
    "linear": torch.nn.functional.linear,
    "mm": torch.mm,
    "bmm": torch.bmm,
    "matmul": torch.matmul,
    "addmm": torch.addmm,
    "baddbmm": torch.baddbmm,
    "mul": torch.mul,
    "add": torch.add,
    "empty": torch.Tensor.new_empty,
    "looped": looped,
}


@functools.lru_cache(maxsize=4096)
def compile_expression(source: str) -> Compute:
    """The function `(a, b, bias, c, alpha, beta) -> out` that evaluates the expression `source`."""
    made: Compute = eval(f"lambda a, b, bias=None, c=None, alpha=1, beta=0: {source}", dict(NAMES))
    return made


def runner(source: str, terms: Terms) -> Compute:
    """`compile_expression(source)`, under "strict" in a wider type where torch's flags would let ATen compute in less."""
    run = compile_expression(source)
    if terms.numerics != "strict":
        return run

    def strict(
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None = None,
        c: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 0,
    ) -> torch.Tensor:
        dtype = wider(a)
        if dtype is None:
            return run(a, b, bias, c, alpha, beta)
        raised = [None if x is None else x.to(dtype) for x in (a, b, bias, c)]
        return run(*raised, alpha, beta).to(a.dtype)

    return strict


def runner_of(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> tuple[str, Compute]:
    """`expression` and what evaluates it; what torch refuses to write in place, under forward-mode AD, in one piece."""
    source = expression(spec, terms, a, b)
    run = runner(source, terms)
    if not source.startswith("looped("):
        return source, run
    whole = runner(Joined(spec, terms, a, b).source(), terms)

    def either(*operands: torch.Tensor | float | None) -> torch.Tensor:
        try:
            return run(*operands)
        except NotImplementedError:
            return whole(*operands)

    return source, either


def direct(spec: Contraction, terms: Terms) -> str | None:
    """The expression when one torch call means exactly `spec`, whatever the sizes and strides; else None.

    torch decides about copies there as it does for a user who writes that call.
    """
    if terms.alpha or terms.c or terms.scaled_bias:
        return None
    if _is_linear(spec) and (not terms.bias or spec.bias == (spec.b[0],)):
        return "linear(a, b, bias)" if terms.bias else "linear(a, b)"
    return None if terms.bias else _direct_product(spec)


def expression(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> str:
    """The expression for operands with the strides `a` and `b` (in elements), for any spec and terms."""
    found = direct(spec, terms)
    if found is not None:
        return found
    if not spec.k and not terms.any:
        return _multiply(spec)
    return looped_source(spec, terms, a, b) or Joined(spec, terms, a, b).source()


def looped_source(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> str | None:
    """The expression as a loop over one batch label, None where the rule of `loop` is against it."""
    found = _loop(spec, terms, a, b)
    if found is None:
        return None
    label, step = found
    views = [
        arranged(spec, name, dims, [(label,), *((x,) for x in atoms_of(dims) if x != label)])
        for name, dims in (("a", spec.a), ("b", spec.b))
    ]
    return f"looped(empty(a, {spec.shape(spec.out)}), lambda a, b, out: {step.into('out')}, {', '.join(views)})"


def _loop(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> tuple[Atom, Joined] | None:
    """The label to loop over and one step of the loop, None where there is none."""
    if terms.c or terms.bias:
        return None
    label = label_to_loop(spec, copied=Joined(spec, terms, a, b).copied)
    if label is None:
        return None
    part, inner = without(spec, label, {"a": a, "b": b})
    return label, Joined(part, terms, inner["a"], inner["b"])


def account(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> tuple[int, dict[str, int]]:
    """(library calls, elements copied by tensor: "a", "b", "result") of `expression`; for reports.

    Where one torch call means the spec, torch itself may copy more.
    """
    if direct(spec, terms) is not None or (not spec.k and not terms.any):
        return 1, {}
    found = _loop(spec, terms, a, b)
    if found is None:
        return 1, Joined(spec, terms, a, b).copies()
    label, step = found
    copies = step.copies()
    if step.writes_in_place:
        copies.pop("result", None)
    calls = spec.sizes[label]
    return calls, {name: calls * elements for name, elements in copies.items()}


def _is_linear(spec: Contraction) -> bool:
    a, b, out = spec.a, spec.b, spec.out
    return len(b) == 2 and len(a) > 0 and a[-1] == b[1] and out == (*a[:-1], b[0])


def _direct_product(spec: Contraction) -> str | None:
    a, b, out = spec.a, spec.b, spec.out
    if len(a) < 2 or len(b) < 2 or len(out) < 2:
        return None
    for swapped in (False, True):
        left, right = ("b", "a") if swapped else ("a", "b")
        x, y = (b, a) if swapped else (a, b)
        for xt in (False, True):
            for yt in (False, True):
                if _is_matmul(_transposed(x, xt), _transposed(y, yt), out):
                    call = {(2, 2): "mm", (3, 3): "bmm"}.get((len(x), len(y)), "matmul")
                    if call == "bmm" and x[0] != y[0]:
                        call = "matmul"
                    return f"{call}({left}{'.mT' * xt}, {right}{'.mT' * yt})"
    return None


def _transposed(dims: Dims, flag: bool) -> Dims:
    return (*dims[:-2], dims[-1], dims[-2]) if flag else dims


def _is_matmul(a: Dims, b: Dims, out: Dims) -> bool:
    """torch.matmul's own contract on dimensions: batch broadcast, [m, k] @ [k, n] -> [m, n]."""
    if a[-1] != b[-2] or out[-2:] != (a[-2], b[-1]):
        return False
    rank = max(len(a), len(b))
    if len(out) != rank:
        return False
    for i in range(rank - 2):
        x, y = (dims[i - rank + len(dims)] if i - rank + len(dims) >= 0 else () for dims in (a, b))
        if out[i] != (x or y) or (x and y and x != y):
            return False
    return True


def _multiply(spec: Contraction) -> str:
    """Nothing is summed: a broadcast multiply, written in the order of the output."""
    order = atoms_of(spec.out)
    shape = ", ".join(map(str, spec.shape(spec.out)))
    factors = ", ".join(aligned(spec, name, dims, order) for name, dims in (("a", spec.a), ("b", spec.b)))
    return f"mul({factors}).reshape({shape}).contiguous()" if shape else f"mul({factors})"
