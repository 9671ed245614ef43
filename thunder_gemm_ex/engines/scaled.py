"""torch._scaled_mm as a labelled contraction: an `Operation` where cuBLASLt takes it, else torch's own call on views."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

from thunder_gemm_ex.engines import cublaslt, cublaslt_calls
from thunder_gemm_ex.engines.arrange import arranged, permuted
from thunder_gemm_ex.engines.aten import compile_expression
from thunder_gemm_ex.engines.operation import Operation
from thunder_gemm_ex.engines.terms import Compute, Told
from thunder_gemm_ex.spec import Contraction, atoms_of, parse

_MAX_SHAPES = 512
# Shape and strides of a, of b, whether there is no bias, the scales' shape, device, dtypes of a and b.
_Signature = tuple[
    torch.Size, tuple[int, ...], torch.Size, tuple[int, ...], bool, torch.Size, torch.device, torch.dtype, torch.dtype
]
# The library's call or None, then `_matrices`, then why there is no such call.
_Fit = tuple[Operation | None, Compute, Compute, Compute, str]


@dataclasses.dataclass(frozen=True)
class How:
    """What a scaled product is besides its spec: the output's dtype (None: of a), and how its sums may be rounded."""

    out_dtype: torch.dtype | None = None
    fast_accumulate: bool = False
    numerics: str = "torch"


class Scaled:
    """One spec text: `scale_a * scale_b * a b + bias`; call it with (a, b, scale_a, scale_b, bias)."""

    def __init__(self, text: str, how: How, *, anywhere: bool) -> None:
        self.pattern, self.how, self.anywhere = parse(text), how, anywhere
        self.fitted: dict[_Signature, _Fit] = {}

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        """The product; RuntimeError in torch's words for what neither the library nor torch computes."""
        key = (a.shape, a.stride(), b.shape, b.stride(), bias is None, scale_a.shape, a.device, a.dtype, b.dtype)
        found = self.fitted.get(key)
        if found is None:
            found = self._fit(key, a, b, scale_a, scale_b, bias)
        operation, left, right, back, _ = found
        if operation is not None and type(a) in cublaslt_calls.PLAIN and type(b) in cublaslt_calls.PLAIN:
            made = operation(a, b, bias=bias, scale_a=scale_a, scale_b=scale_b)
            if made is not None:
                return made.out
        fast = self.how.fast_accumulate and self.how.numerics != "strict"
        x, y = left(a, b), right(a, b)
        out = torch._scaled_mm(x, y, scale_a, scale_b, bias=bias, out_dtype=self.how.out_dtype, use_fast_accum=fast)
        return back(out, None)

    def _fit(
        self,
        key: _Signature,
        a: torch.Tensor,
        b: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> _Fit:
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        how = self.how
        operation, reason = None, f"operands on {a.device}"
        if (self.anywhere or (a.is_cuda and cublaslt.status()["usable"])) and 0 not in spec.sizes.values():
            fast = how.fast_accumulate and how.numerics != "strict"
            operation = Operation(spec, numerics=how.numerics, out_dtype=how.out_dtype, fast_accumulate=fast)
            reason = operation.why(a, b, bias=bias, scale_a=scale_a, scale_b=scale_b)
            operation = None if reason else operation
        if len(self.fitted) >= _MAX_SHAPES:
            self.fitted.clear()
        self.fitted[key] = operation, *_matrices(spec), reason
        return self.fitted[key]


def _matrices(spec: Contraction) -> tuple[Compute, Compute, Compute]:
    """(a as [m, k], b as [k, n], [m, n] as the output), each a function of (a, b)."""
    left = arranged(spec, "a", spec.a, [spec.m, spec.k])
    right = arranged(spec, "b", spec.b, [spec.k, spec.n])
    order = (*spec.m, *spec.n)
    split = f"a.reshape({', '.join(str(spec.sizes[x]) for x in order) or '()'})"
    turned = permuted([order.index(x) for x in atoms_of(spec.out)])
    shape = ", ".join(map(str, spec.shape(spec.out))) or "()"
    back = f"{split}{turned}.reshape({shape}).contiguous()"
    return compile_expression(left), compile_expression(right), compile_expression(back)


_made: dict[tuple[str, How, bool], Scaled] = {}


def runs_of(text: str, numerics: str, a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[Told]:
    """What `epilogues.runs_of` tells, of scaled products."""
    for (spec, how, _), found in _made.items():
        for key, (operation, *_, reason) in found.fitted.items():
            if (spec, how.numerics) == (text, numerics) and (tuple(key[0]), tuple(key[2])) == (a, b):
                does = ("cublaslt", "a call with scales") if operation else ("aten", "torch._scaled_mm")
                yield *does, reason, key[1], key[3]


def made_for(anywhere: bool, text: str, how: How) -> Scaled:
    """The `Scaled` of a spec text and `how`, parsed once."""
    found = _made.get((text, how, anywhere))
    if found is None:
        found = _made[text, how, anywhere] = Scaled(text, how, anywhere=anywhere)
    return found
