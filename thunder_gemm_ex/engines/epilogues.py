"""A product with an epilogue as one call of a trace: cuBLASLt's where it takes it, else ATen's operations one by one.

Both make and read the same aux (bits as `packed` writes them, or values in rows of a multiple of 8), so a forward on one
engine has its backward on the other. Where the epilogue is declined the product alone still goes to whatever serves it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import torch

from thunder_gemm_ex.engines import cublaslt_calls
from thunder_gemm_ex.engines.arrange import aligned, listed
from thunder_gemm_ex.engines.aten import compile_expression
from thunder_gemm_ex.engines.operation import READS_AUX, WRITES_AUX, WRITES_BIAS, Operation
from thunder_gemm_ex.engines.terms import Compute, Terms, Told
from thunder_gemm_ex.spec import MASK_BITS, Contraction, Pattern, atoms_of, parse

# How often one text is fitted to other shapes before all are forgotten.
_MAX_SHAPES = 512
# The result alone, or with the aux that is written and the bias gradient.
Made = torch.Tensor | tuple[torch.Tensor, ...]
# What computes a product without its epilogue: `choose.site`.
SiteOf = Callable[[str, Terms], Compute]
# Shape and strides of a, of b, the bias's shape, device, dtype, whether beta is 1.
_Signature = tuple[
    torch.Size, tuple[int, ...], torch.Size, tuple[int, ...], torch.Size | None, torch.device, torch.dtype, bool
]
# The contraction, the library's call or None, what makes the bias a C or None, why there is no such call.
_Fit = tuple[Contraction, Operation | None, Compute | None, str]


def as_c(spec: Contraction) -> Compute:
    """(a, b, bias) -> the bias as the C of a GEMM: as large as the result, in its order."""
    assert spec.bias is not None
    order = atoms_of(spec.out)
    source = f"{aligned(spec, 'bias', spec.bias, order)}.expand({listed([spec.sizes[x] for x in order])})"
    return compile_expression(f"{source}.reshape({listed(spec.shape(spec.out))})")


def is_full(spec: Contraction) -> bool:
    """Whether the bias of a contraction is as large as its result."""
    assert spec.bias is not None
    return set(atoms_of(spec.bias)) == set(atoms_of(spec.out))


class Epilogue:
    """One spec text with an epilogue; call it with (a, b, bias, alpha, beta, aux).

    Returns out, or a tuple of out and, where the epilogue has them, the aux that it writes and the bias gradient.

    Args:
        site: (text, terms) -> what computes the product alone, as `choose.site`.
        anywhere: also give host memory to cuBLASLt, as `choose.everywhere`.
    """

    def __init__(self, text: str, epilogue: str, numerics: str, site: SiteOf, *, anywhere: bool) -> None:
        self.text, self.epilogue, self.numerics = text, epilogue, numerics
        self.site, self.anywhere = site, anywhere
        self.pattern: Pattern = parse(text)
        self.writes_bias = epilogue in WRITES_BIAS and self.pattern.bias is not None
        inputs, _, out = text.partition("->")
        self.product = f"{inputs.rpartition(',')[0]} ->{out}" if self.writes_bias else text
        self.fitted: dict[_Signature, _Fit] = {}

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        alpha: float,
        beta: float,
        aux: torch.Tensor | None,
    ) -> Made:
        """The outputs; see the class."""
        key = (
            a.shape,
            a.stride(),
            b.shape,
            b.stride(),
            None if bias is None else bias.shape,
            a.device,
            a.dtype,
            beta == 1,
        )
        found = self.fitted.get(key)
        if found is None:
            found = self._fit(key, a, b, bias, beta, aux)
        spec, operation, full, reason = found
        if operation is not None and type(a) in cublaslt_calls.PLAIN and type(b) in cublaslt_calls.PLAIN:
            c = None if full is None else full(a, b, bias)
            small = bias if full is None else None
            made = operation(a, b, bias=small, c=c, aux=aux, alpha=alpha, beta=0.0 if c is None else beta)
            if made is not None:
                return _returned(*made)
            reason = "the epilogue of these operands"
        if self.numerics == "batch_invariant" and 0 not in spec.sizes.values():
            cublaslt_calls.refusing(reason)()
        return self._by_aten(spec, a, b, bias, alpha, beta, aux)

    def _fit(
        self,
        key: _Signature,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        beta: float,
        aux: torch.Tensor | None,
    ) -> _Fit:
        spec = self.pattern.bind(a.shape, b.shape, None if bias is None else bias.shape)
        served = a.is_cuda or self.anywhere
        reason = cublaslt_calls.refusal(spec, a, anywhere=self.anywhere) if served else f"operands on {a.device}"
        full = as_c(spec) if bias is not None and (beta != 1 or is_full(spec)) else None
        operation = None
        if not reason:
            bound = spec if full is None else dataclasses.replace(spec, bias=None)
            operation = Operation(bound, self.epilogue, numerics=self.numerics)
            c = None if full is None else full(a, b, bias)
            reason = operation.why(a, b, bias=bias if full is None else None, c=c, aux=aux)
            operation = None if reason else operation
        if len(self.fitted) >= _MAX_SHAPES:
            self.fitted.clear()
        self.fitted[key] = spec, operation, full, reason
        return self.fitted[key]

    def _by_aten(
        self,
        spec: Contraction,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        alpha: float,
        beta: float,
        aux: torch.Tensor | None,
    ) -> Made:
        biased = bias is not None
        terms = Terms(alpha != 1, bias=biased, scaled_bias=biased and beta != 1, numerics=self.numerics)
        out = self.site(self.product, terms)(a, b, bias, None, alpha, beta)
        kind = self.epilogue.removesuffix("_aux").removeprefix("d")
        written = None
        if self.epilogue in READS_AUX:
            out = _DERIVATIVES[kind](out, aux)
        elif kind in _ACTIVATIONS:
            before, out = out, _ACTIVATIONS[kind](out)
            if self.epilogue in WRITES_AUX:
                written = packed(out > 0) if kind == "relu" else _padded(before)
        summed = {"bgrada": ("a", a), "bgradb": ("b", b)}.get(self.epilogue, ("out", out))
        return _returned(out, written, _summed(spec, *summed) if self.writes_bias else None)


def _returned(out: torch.Tensor, aux: torch.Tensor | None, bias_grad: torch.Tensor | None) -> Made:
    outputs = tuple(x for x in (out, aux, bias_grad) if x is not None)
    return outputs if len(outputs) > 1 else out


def _summed(spec: Contraction, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` summed over every label that the bias lacks."""
    assert spec.bias is not None
    atoms, kept = atoms_of(getattr(spec, name)), atoms_of(spec.bias)
    gone = [i for i, x in enumerate(atoms) if x not in kept]
    found: torch.Tensor = tensor.reshape([spec.sizes[x] for x in atoms])
    found = found.sum(gone) if gone else found
    left = [x for x in atoms if x in kept]
    return found.permute([left.index(x) for x in kept]).reshape(spec.shape(spec.bias))


def packed(positive: torch.Tensor) -> torch.Tensor:
    """A mask as bits, the first of a byte the lowest, in whole rows of 128: what cuBLASLt's ReLU writes as aux."""
    last = positive.shape[-1] if positive.ndim else 1
    bits = torch.nn.functional.pad(positive.reshape(*positive.shape[:-1], last), (0, -last % MASK_BITS))
    weights = 2 ** torch.arange(8, dtype=torch.uint8, device=positive.device)
    found: torch.Tensor = (bits.unflatten(-1, (-1, 8)) * weights).sum(-1, dtype=torch.uint8)
    return found


def unpacked(bits: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The mask that `packed` wrote, for an output of that shape."""
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    found = (bits.unsqueeze(-1) >> places) & 1
    return found.flatten(-2)[..., : shape[-1] if shape else 1].reshape(shape).bool()


def _padded(before: torch.Tensor) -> torch.Tensor:
    """The values in rows of a multiple of 8, as cuBLASLt wants to read them."""
    last = before.shape[-1] if before.ndim else 1
    room = before.new_empty((*before.shape[:-1], -(-last // 8) * 8))[..., :last].reshape(before.shape)
    return before if last % 8 == 0 else room.copy_(before)


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}
_DERIVATIVES: dict[str, Callable[..., torch.Tensor]] = {
    "relu": lambda g, aux: torch.where(unpacked(aux, g.shape), g, 0),
    "gelu": lambda g, aux: torch.ops.aten.gelu_backward(g, aux, approximate="tanh"),
}
_made: dict[tuple[str, str, str, bool], Epilogue] = {}


def runs_of(text: str, epilogue: str, numerics: str, a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[Told]:
    """(engine, what it does, why not cuBLASLt or "", strides of a, of b) of what was called in this process; for reports."""
    for (*asked, _), found in _made.items():
        for key, (_, operation, _, reason) in found.fitted.items():
            if asked == [text, epilogue, numerics] and (tuple(key[0]), tuple(key[2])) == (a, b):
                does = (
                    f'a call with the epilogue "{epilogue}"'
                    if operation
                    else f'a product, then ATen\'s part of "{epilogue}"'
                )
                yield ("cublaslt" if operation else "aten"), does, reason, key[1], key[3]


def made_for(site: SiteOf, anywhere: bool, spec: str, epilogue: str, numerics: str) -> Epilogue:
    """The `Epilogue` of a spec text, epilogue and numerics, parsed once."""
    key = (spec, epilogue, numerics, anywhere)
    found = _made.get(key)
    if found is None:
        found = _made[key] = Epilogue(spec, epilogue, numerics, site, anywhere=anywhere)
    return found
