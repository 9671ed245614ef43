"""Random chains of views around matmuls, forward and backward, against eager: values, gradients, dtypes and strides."""

import math

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.checks import assert_as_eager


@st.composite
def chains(draw, shape):
    """Views that lead from some stored shape to `shape`: (stored shape, the views in order)."""
    views = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["permute", "reshape", "unsqueeze", "expand"]))
        if kind == "permute" and len(shape) > 1:
            perm = tuple(draw(st.permutations(range(len(shape)))))
            source = [0] * len(shape)
            for i, p in enumerate(perm):
                source[p] = shape[i]
            views.insert(0, ("permute", perm))
            shape = tuple(source)
        elif kind == "reshape":
            views.insert(0, ("reshape", shape))
            shape = draw(regrouped(shape))
        elif kind == "unsqueeze" and 1 in shape:
            at = shape.index(1)
            views.insert(0, ("unsqueeze", at))
            shape = shape[:at] + shape[at + 1 :]
        elif kind == "expand" and shape:
            at = draw(st.integers(0, len(shape) - 1))
            views.insert(0, ("expand", shape))
            shape = (*shape[:at], 1, *shape[at + 1 :])
    return shape, views


@st.composite
def regrouped(draw, shape):
    """Another shape with as many elements: prime factors dealt anew, sizes 1 thrown in."""
    factors = [p for size in shape for p in _primes(size)]
    dims = []
    while factors:
        take = draw(st.integers(1, len(factors)))
        dims += [1] * draw(st.integers(0, 1)) + [math.prod(factors[:take])]
        factors = factors[take:]
    return tuple(dims) or (1,)


def _primes(size):
    found, p = [], 2
    while size > 1:
        while size % p == 0:
            found.append(p)
            size //= p
        p += 1
    return found


def apply(x, views):
    for name, arg in views:
        x = getattr(x, name)(arg)
    return x


@st.composite
def programs(draw):
    """(function, stored shapes): views, a matmul, views, perhaps pointwise work and a second matmul."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    m, k, n, p = (draw(st.sampled_from([1, 2, 3, 4, 6])) for _ in range(4))
    a_shape, a_views = draw(chains((*batch, m, k)))
    b_shape, b_views = draw(chains((*batch, k, n) if draw(st.booleans()) else (k, n)))
    result = (*batch, m, n)
    perm = tuple(draw(st.permutations(range(len(result)))))
    shown = tuple(result[i] for i in perm)
    last = draw(st.sampled_from(["view", "relu", "reshape", "cat", "matmul"]))
    c_shape, c_views = draw(chains((shown[-1], p)))
    new_shape = draw(regrouped(shown))

    def program(a, b, c):
        y = (apply(a, a_views) @ apply(b, b_views)).permute(perm)
        if last == "relu":
            return torch.relu(y)
        if last == "reshape":
            return y.reshape(new_shape)
        if last == "cat":
            return torch.cat([y, y * 2])
        return y @ apply(c, c_views) if last == "matmul" else y

    return program, [a_shape, b_shape, c_shape]


@given(programs(), st.booleans(), st.integers(0, 2**16))
# Without shrinking: a failing program says its seed, and compiling is too slow to shrink within a test's time.
@settings(max_examples=50, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_programs_equal_eager(drawn, grad, seed):
    program, shapes = drawn
    generator = torch.Generator().manual_seed(seed)
    args = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_(grad) for s in shapes]
    # K=1 products, reshapes that copy and relu of a permuted view: strides must be eager's in all of them.
    assert_as_eager(program, *args, leaf_strides=False)
