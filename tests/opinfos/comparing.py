"""One sample through our executor, through eager and through eager in float64, compared; and through Thunder alone."""

import math
import warnings

import thunder
import torch
from torch.utils._pytree import tree_leaves, tree_map

import thunder_gemm_ex as gx
from tests.checks import backward_names, layout

# Thunder as it is without this package.
ALONE = [ex for ex in thunder.get_default_executors() if ex != gx.gemm_ex]
TIMES_EAGERS_ERROR = 3
FLOOR = 8  # units of the last place, where eager itself is exact, as it is against float64 in float64


class Wrong(AssertionError):
    """Values, dtypes, shapes, strides or NaN that are not eager's."""


def compiled(call, executors):
    """`call` as a program: it is called in one, as a user's function calls it."""

    def program(*args, **kwargs):
        return call(*args, **kwargs)

    return thunder.jit(program, executors=executors)


def fresh(sample, dtype=None, grad=False):
    """(args, kwargs) with new leaves; floating ones in `dtype` if given."""

    def leaf(x):
        if not isinstance(x, torch.Tensor):
            return x
        counts = x.is_floating_point() or x.is_complex()
        wide = dtype.to_complex() if counts and dtype is not None and x.is_complex() else dtype
        copy = x.detach().clone()
        return (copy.to(wide) if counts and wide is not None else copy).requires_grad_(grad and counts)

    return tree_map(leaf, sample)


def results(call, sample, grad):
    """The output, or the gradients of its sum weighted by fixed numbers; None where a leaf has none."""
    args, kwargs = sample
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = call(*args, **kwargs)
        if not grad:
            return [out]
        wanted = [x for x in tree_leaves(sample) if isinstance(x, torch.Tensor) and x.requires_grad]
        generator = torch.Generator().manual_seed(1)
        cotangent = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
        return list(torch.autograd.grad(out, wanted, cotangent, allow_unused=True))


def check(source, sample, dtype, grad):
    """Raise Wrong where ours is not eager's within the bound.

    Returns None, or a sentence where Thunder without this package is run on the sample as well and does no better: it
    refuses it, gives a diagonal other strides, or a gradient that `not_our_fault` knows other values.
    """
    eager = results(source.eager, fresh(sample, grad=grad), grad)
    wide = torch.float64 if dtype.is_floating_point or dtype.is_complex else None
    exact = results(source.eager, fresh(sample, wide, grad=grad), grad)
    jfn = compiled(source.call, gx.executors())
    try:
        ours = results(jfn, fresh(sample, grad=grad), grad)
    except Exception as error:
        if refusal := refused_alone(source, sample, grad):
            return refusal
        raise Wrong(f"{describe(sample)}: raises {type(error).__name__}: {error}; Thunder alone does not") from error
    for i, (x, y, z) in enumerate(zip(ours, eager, exact, strict=True)):
        if (x is None) != (y is None):
            raise Wrong(f"{describe(sample)}: gradient {i} is {x}, eager's is {y}")
        if x is not None:
            try:
                compare(x, y, z, f"{describe(sample)}: {f'gradient {i}' if grad else 'output'}")
            except Wrong:
                excuse = grad and not_our_fault(jfn, sample)
                if not excuse or not _alone_is_wrong_too(source, sample, eager, exact):
                    raise
                return excuse
            if not grad and layout(x) != layout(y):
                # A diagonal is no matmul: Thunder copies it, and eager views it.
                [alone] = results(compiled(source.call, ALONE), fresh(sample), False)
                if layout(x) != layout(alone):
                    raise Wrong(f"{describe(sample)}: strides {x.stride()}, eager's are {y.stride()}")
                return f"Thunder's own strides are {alone.stride()} where eager's are {y.stride()}"
    return None


def not_our_fault(jfn, sample):
    """Why a gradient may be wrong that is wrong without this package too, None where there is no reason known."""
    alpha = sample[1].get("alpha")
    if isinstance(alpha, float) and math.isinf(alpha):
        return "the gradient under an infinite alpha (docs/limits.md) is not eager's"
    if "convolution" in backward_names(jfn):
        # One that is no contraction: Thunder pads it as widely as its windows, and of bfloat16 torch 2.10 computes garbage
        # for that on a CPU with AVX512-BF16 and AMX, also where it is called by hand.
        return "a convolution that is left to torch"
    return None


def _alone_is_wrong_too(source, sample, eager, exact):
    alone = results(compiled(source.call, ALONE), fresh(sample, grad=True), True)
    try:
        for x, y, z in zip(alone, eager, exact, strict=True):
            compare(x, y, z, "alone")
    except Wrong:
        return True
    return False


def refused_alone(source, sample, grad):
    """Thunder's words where it does not take the sample without this package either, None where it does."""
    try:
        results(compiled(source.call, ALONE), fresh(sample, grad=grad), grad)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def compare(ours, eager, exact, what):
    """NaN and infinities where eager has them; elsewhere the error is within the bound."""
    if (ours.dtype, ours.shape) != (eager.dtype, eager.shape):
        raise Wrong(f"{what} is {ours.dtype}{tuple(ours.shape)}, eager's {eager.dtype}{tuple(eager.shape)}")
    if not (ours.dtype.is_floating_point or ours.dtype.is_complex):
        if not torch.equal(ours, eager):
            raise Wrong(f"{what}: other integers than eager's")
        return
    finite = torch.isfinite(eager)
    if not torch.equal(finite, torch.isfinite(ours)) or not _same(ours[~finite], eager[~finite]):
        raise Wrong(f"{what}: not NaN and infinite where eager is")
    where = finite & torch.isfinite(exact)
    if not where.any():
        return
    error, theirs = ((x.to(exact.dtype) - exact)[where].abs().max().item() for x in (ours, eager))
    scale = exact[where].abs().max().item()
    allowed = TIMES_EAGERS_ERROR * theirs + FLOOR * torch.finfo(ours.dtype).eps * scale
    if not error <= allowed or math.isnan(error):
        raise Wrong(f"{what}: error {error:.3g}, eager's own {theirs:.3g}, allowed {allowed:.3g}")


def _same(x, y):
    return torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) and torch.equal(torch.isnan(x), torch.isnan(y))


def describe(sample):
    """A sample in one line: shapes for tensors."""
    return str(tree_map(lambda x: tuple(x.shape) if isinstance(x, torch.Tensor) else x, sample))


def check_error(source, sample):
    """Where eager raises, ours raises: eager's type, or another that Thunder alone raises. None if eager does not."""
    said = _raised(source.eager, sample)
    if said is None:
        return
    ours = _raised(compiled(source.call, gx.executors()), sample)
    if ours is None:
        raise Wrong(f"{describe(sample)}: eager raises {said!r}, ours does not")
    if not isinstance(ours, type(said)):
        alone = _raised(compiled(source.call, ALONE), sample)
        if type(ours) is not type(alone):
            raise Wrong(f"{describe(sample)}: eager raises {said!r}, ours {ours!r}, Thunder alone {alone!r}")


def _raised(call, sample):
    try:
        results(call, fresh(sample), False)
    except Exception as error:
        return error
    return None
