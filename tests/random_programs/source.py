"""The operands of a random program: inputs seen through chains of everything that a matmul absorbs.

Shapes are drawn backwards, from what a contraction wants to what is stored, so that every program is valid.
"""

import math

from hypothesis import strategies as st

SIZES = st.sampled_from([1, 2, 3, 4, 6])


def operand(p, shape, depth=None):
    """The name of a tensor of the given shape: an input seen through a chain of views, casts and factors."""
    draw = p.draw
    known = p.shared(shape)
    if known is not None:
        return known
    depth = draw(st.integers(0, 3)) if depth is None else depth
    if depth == 0:
        return p.input(shape)
    kind = draw(st.sampled_from(sorted(_ABOVE)))
    made = _ABOVE[kind](p, shape, depth - 1)
    return p.know(made, shape, p.dtype) if made is not None else operand(p, shape, depth - 1)


def _permute(p, shape, depth):
    perm = p.draw(st.permutations(range(len(shape))))
    source = [0] * len(shape)
    for i, d in enumerate(perm):
        source[d] = shape[i]
    x = operand(p, tuple(source), depth)
    swapped = [i for i, d in enumerate(perm) if i != d]
    if len(shape) == 2 and swapped:
        return p.line(f"{x}{p.draw(st.sampled_from(['.t()', '.mT', '.T', '.swapaxes(0, 1)']))}")
    if len(swapped) == 2:
        how = p.draw(st.sampled_from(["transpose", "swapdims"]))
        return p.line(f"{x}.{how}({swapped[0]}, {swapped[1]})")
    return p.line(f"{x}.permute({tuple(perm)})") if shape else None


def _reshape(p, shape, depth):
    return p.line(f"{operand(p, p.draw(regrouped(shape)), depth)}.reshape({shape})")


def _unsqueeze(p, shape, depth):
    if 1 not in shape:
        return None
    at = shape.index(1)
    x = operand(p, shape[:at] + shape[at + 1 :], depth)
    return p.line(f"{x}[{', '.join([':'] * at + ['None'])}]" if p.draw(st.booleans()) else f"{x}.unsqueeze({at})")


def _squeeze(p, shape, depth):
    at = p.draw(st.integers(0, len(shape)))
    return p.line(f"{operand(p, (*shape[:at], 1, *shape[at:]), depth)}.squeeze({at})")


def _expand(p, shape, depth):
    if not shape:
        return None
    at = p.draw(st.integers(0, len(shape) - 1))
    x = operand(p, (*shape[:at], 1, *shape[at + 1 :]), depth)
    return p.line(f"{x}.expand({shape})")


def _repeat(p, shape, depth):
    # Of a dimension of size 1 Thunder makes a view where eager copies: what is pointwise below shows its strides.
    even = [d for d, s in enumerate(shape) if s % 2 == 0 and s > 2]
    if not even:
        return None
    d = p.draw(st.sampled_from(even))
    x = operand(p, (*shape[:d], shape[d] // 2, *shape[d + 1 :]), depth)
    return p.line(f"{x}.repeat_interleave(2, dim={d})")


def _slice(p, shape, depth):
    if not shape:
        return None
    d = p.draw(st.integers(0, len(shape) - 1))
    x = operand(p, (*shape[:d], shape[d] + 2, *shape[d + 1 :]), depth)
    return p.line(f"{x}[{', '.join([':'] * d + ['1:-1'])}]")


def _scale(p, shape, depth):
    return p.line(f"torch.mul({operand(p, shape, depth)}, 0.5)")


def _copy(p, shape, depth):
    return p.line(f"{operand(p, shape, depth)}.{p.draw(st.sampled_from(['contiguous', 'clone']))}()")


def _cast(p, shape, depth):
    return p.line(f"{p.input(shape, p.other_dtype())}.to(torch.{p.dtype})")


def _cast_view(p, shape, depth):
    x = p.input(p.draw(regrouped(shape)), p.other_dtype())
    return p.line(f"{p.line(f'{x}.reshape({shape})')}.to(torch.{p.dtype})")


_ABOVE = {
    "permute": _permute,
    "permute again": _permute,
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "repeat": _repeat,
    "slice": _slice,
    "scale": _scale,
    "copy": _copy,
    "cast": _cast,
    "cast view": _cast_view,
}


@st.composite
def regrouped(draw, shape):
    """Another shape with as many elements: prime factors dealt anew, sizes 1 thrown in."""
    factors = [p for size in shape for p in primes(size)]
    dims = []
    while factors:
        take = draw(st.integers(1, len(factors)))
        dims += [1] * draw(st.integers(0, 1)) + [math.prod(factors[:take])]
        factors = factors[take:]
    return tuple(dims) or (1,)


def primes(size):
    """The prime factors of a size."""
    found, p = [], 2
    while size > 1:
        while size % p == 0:
            found.append(p)
            size //= p
        p += 1
    return found
