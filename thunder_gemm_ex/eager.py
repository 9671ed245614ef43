"""`gx.gemm`: the contraction as a function on tensors, checked in full before anything is computed."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

from thunder_gemm_ex.engines.aten import Terms
from thunder_gemm_ex.engines.choose import checked_calls, site
from thunder_gemm_ex.spec import SpecError, parse

_STRIDED = torch.strided
_UNKNOWN = (None, None, None)
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_ACTIVATIONS = {
    None: None,
    "relu": torch.relu,
    "gelu": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
}


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str = "m k, k n -> m n",
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """`activation(alpha * a b + beta * c + bias)`, contracted as `spec` labels the operands' stored dimensions.

    Labels of both inputs that the output lacks are summed; `(h d)` is one dimension joined from two labels, `1` one of
    size 1, `label:8` states a size that the shapes do not tell. The result is contiguous in the order of the output.

    Args:
        a, b: tensors of one dtype on one device, with as many dimensions as the spec gives them.
        spec: such as "b h s d, b h t d -> b h s t"; a third input labels the bias.
        bias: labelled by the spec's third input, or else broadcast against the output's last dimensions.
        activation: None, "relu" or "gelu" (the tanh form, as cuBLASLt computes it).
        alpha, beta: scale the product and `c`. With beta=0 `c` is not read: NaN in it is ignored.
        c: broadcastable to the output's shape.

    Raises:
        SpecError (a ValueError): the spec does not parse or does not fit the shapes.
        ValueError: dtypes or devices differ, or an option is not one of its choices.
        TypeError: an operand is not a strided tensor with memory of its own (meta, FakeTensor, conj or neg view, ...).
    """
    # For small operands the checks of `_checked_gemm`, one by one, take several times as long as the product. Where one
    # torch call means the spec and finds nothing wrong, nothing is; where anything is amiss, the long way says what.
    if bias is None and c is None and activation is None and alpha == 1 and beta == 0 and type(spec) is str:
        call, a_rank, b_rank = checked_calls.get(spec, _UNKNOWN)
        if a_rank is not None and type(a) in _PLAIN and type(b) in _PLAIN and a.ndim == a_rank and b.ndim == b_rank:
            if a.is_cpu and b.is_cpu and a.layout is _STRIDED and b.layout is _STRIDED:
                # Only complex tensors are conjugate views, and they are not for this path.
                if not (a.is_neg() or b.is_neg() or a.is_complex()):
                    try:
                        return call(a, b)
                    except RuntimeError:
                        pass
    return _checked_gemm(a, b, spec, bias, activation, alpha, beta, c)


def _checked_gemm(a, b, spec, bias, activation, alpha, beta, c) -> torch.Tensor:
    tensors = {"a": a, "b": b, "bias": bias, "c": c}
    for name, tensor in tensors.items():
        if tensor is not None or name in ("a", "b"):
            _check_tensor(name, tensor, a)
    if activation not in _ACTIVATIONS:
        raise ValueError(f'activation must be None, "relu" or "gelu", was {activation!r}')
    for name, value in (("alpha", alpha), ("beta", beta)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, was {type(value).__name__}")
    if beta != 0 and c is None:
        raise ValueError(f"beta is {beta} but c is None: give the tensor that it scales")
    text, out_shape = _resolve(spec, tuple(a.shape), tuple(b.shape), None if bias is None else tuple(bias.shape))
    if beta == 0:
        c = None
    if c is not None:
        c = _expanded(c, out_shape)
    terms = Terms(alpha=alpha != 1, c=c is not None, bias=bias is not None)
    grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors.values())
    out = site(text, terms).run(a, b, bias, c, alpha, beta, differentiable=grad)
    function = _ACTIVATIONS[activation]
    return out if function is None else function(out)


def _check_tensor(name: str, tensor: object, a: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, was {type(tensor).__name__}")
    what = _unusable(tensor)
    if what:
        # A nested tensor has no one shape to name.
        raise TypeError(f"{name} is {what}" if tensor.is_nested else f"{name} of shape {tuple(tensor.shape)} is {what}")
    if tensor.dtype != a.dtype or tensor.device != a.device:
        raise ValueError(
            f"{name} is {tensor.dtype} on {tensor.device} and must be as a: {a.dtype} on {a.device}; nothing is cast here"
        )


def _unusable(tensor: torch.Tensor) -> str:
    if isinstance(tensor, FakeTensor):
        return "a FakeTensor, which has no data: use a real tensor"
    if tensor.is_nested:
        return "a nested tensor: contract its parts one by one"
    if tensor.layout is not torch.strided:
        return f"a {tensor.layout} tensor: use to_dense()"
    if tensor.is_meta:
        return "on the meta device, which has no data: use a real tensor"
    if tensor.is_conj():
        return "a conjugate view: use resolve_conj()"
    if tensor.is_neg():
        return "a negative view: use resolve_neg()"
    return ""


@functools.lru_cache(maxsize=1024)
def _resolve(spec: str, a: tuple[int, ...], b: tuple[int, ...], bias: tuple[int, ...] | None):
    """The spec with the bias labelled, and the output's shape."""
    pattern = parse(spec)
    if pattern.bias is not None and bias is None:
        raise SpecError(f"the spec '{spec}' labels a bias, but bias is None")
    contraction = pattern.bind(a, b, bias)
    shape = contraction.shape(contraction.out)
    if bias is None or pattern.bias is not None:
        return spec, shape
    return _label_bias(spec, pattern.out, bias, shape), shape


def _label_bias(spec: str, out: Sequence[Sequence[str]], bias: tuple[int, ...], shape: tuple[int, ...]) -> str:
    fits = len(bias) <= len(shape) and all(x in (1, y) for x, y in zip(reversed(bias), reversed(shape)))
    if not fits:
        raise SpecError(f"bias of shape {bias} does not broadcast to the output's shape {shape} of the spec '{spec}'")
    last = out[len(out) - len(bias) :]
    labels = []
    for size, full, dim in zip(bias, shape[len(shape) - len(bias) :], last):
        repeated = size == 1 and full != 1
        labels.append("1" if repeated or not dim else dim[0] if len(dim) == 1 else f"({' '.join(dim)})")
    labelled = " ".join(labels)
    left, _, right = spec.partition("->")
    return f"{left.rstrip()}, {labelled} -> {right.strip()}"


def _expanded(c: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    try:
        return c.expand(shape)
    except RuntimeError:
        raise ValueError(f"c of shape {tuple(c.shape)} does not broadcast to the output's shape {shape}") from None
