"""The ways of writing a contraction in a random program, and what may come below one."""

from hypothesis import strategies as st

from tests.random_programs.program import DTYPES
from tests.random_programs.source import SIZES, operand, regrouped


def contraction(p):
    """(name, shape) of a contraction; of dtypes that do not match, now and then, where dtypes are mixed."""
    p.dtype = p.draw(st.sampled_from(DTYPES)) if p.mixed else "float64"
    if p.mixed and p.draw(st.integers(0, 15)) == 0:
        return _mismatched(p)
    return _WAYS[p.draw(st.sampled_from(sorted(_WAYS)))](p)


def _sizes(p, n):
    return [p.draw(SIZES) for _ in range(n)]


def _matmul(p):
    m, k, n = _sizes(p, 3)
    batch = tuple(p.draw(st.lists(st.integers(1, 3), max_size=2)))
    lacks = [p.draw(st.booleans()) for _ in batch]
    a_batch = tuple(1 if x and p.draw(st.booleans()) else s for s, x in zip(batch, lacks))
    a, b = operand(p, (*a_batch, m, k)), operand(p, (*batch, k, n) if p.draw(st.booleans()) else (k, n))
    return p.line(f"torch.matmul({a}, {b})"), None


def _linear(p):
    k, n = _sizes(p, 2)
    lead = tuple(p.draw(st.lists(SIZES, max_size=3)))
    bias = f", {operand(p, (n,), 0)}" if p.draw(st.booleans()) else ""
    return p.line(f"torch.nn.functional.linear({operand(p, (*lead, k))}, {operand(p, (n, k))}{bias})"), None


def _addmm(p):
    m, k, n = _sizes(p, 3)
    shape = p.draw(st.sampled_from([(n,), (m, n), (1, n), (m, 1)]))
    scales = p.draw(st.sampled_from(["", ", beta=0.5, alpha=2", ", alpha=-1"]))
    return p.line(f"torch.addmm({operand(p, shape)}, {operand(p, (m, k))}, {operand(p, (k, n))}{scales})"), None


def _baddbmm(p):
    b, m, k, n = _sizes(p, 4)
    shape = p.draw(st.sampled_from([(n,), (b, m, n), (1, m, n), (b, 1, n)]))
    scales = p.draw(st.sampled_from(["", ", beta=0.5, alpha=2"]))
    return p.line(f"torch.baddbmm({operand(p, shape)}, {operand(p, (b, m, k))}, {operand(p, (b, k, n))}{scales})"), None


def _others(p):
    m, k, n, b = _sizes(p, 4)
    ways = {
        "torch.mm": [(m, k), (k, n)],
        "torch.bmm": [(b, m, k), (b, k, n)],
        "torch.mv": [(m, k), (k,)],
        "torch.dot": [(k,), (k,)],
        "torch.inner": [(m, b, k), (n, k)],
        "torch.outer": [(m,), (n,)],
        "torch.addbmm": [(m, n), (b, m, k), (b, k, n)],
        "torch.addmv": [(m,), (m, k), (k,)],
    }
    way = p.draw(st.sampled_from(sorted(ways)))
    return p.line(f"{way}({', '.join(operand(p, shape) for shape in ways[way])})"), None


def _einsum(p):
    labels = {x: p.draw(SIZES) for x in "abcdk"}
    left = p.draw(st.permutations("abck"))[: p.draw(st.integers(2, 4))]
    right = p.draw(st.permutations("abdk"))[: p.draw(st.integers(2, 4))]
    both = sorted(set(left) | set(right))
    out = p.draw(st.permutations(both))[: p.draw(st.integers(0, len(both)))]
    x, y = (operand(p, tuple(labels[c] for c in names)) for names in (left, right))
    return p.line(f'torch.einsum("{"".join(left)},{"".join(right)}->{"".join(out)}", {x}, {y})'), None


def _tensordot(p):
    m, k, n, j = _sizes(p, 4)
    x, y = operand(p, (k, m, j)), operand(p, (j, n, k))
    return p.line(f"torch.tensordot({x}, {y}, dims=([0, 2], [2, 0]))"), None


def _gram(p):
    m, k = _sizes(p, 2)
    batch = tuple(p.draw(st.lists(st.integers(1, 3), max_size=2)))
    x = operand(p, (*batch, m, k))
    forms = ["{x}, {x}.mT", "{x}.mT, {x}", "{x}, {x}.transpose(-1, -2).contiguous()"]
    return p.line(f"torch.matmul({p.draw(st.sampled_from(forms)).format(x=x)})"), None


def _twice(p):
    """One operand of two contractions, on either side."""
    m, k, n = _sizes(p, 3)
    x, a, b = operand(p, (k, m)), operand(p, (n, k)), operand(p, (m, n))
    first, second = p.line(f"torch.matmul({a}, {x})"), p.line(f"torch.matmul({x}, {b})")
    return p.line(f"torch.matmul({second}, {first})"), None


def _mismatched(p):
    m, k, n = _sizes(p, 3)
    a = operand(p, (m, k))
    p.dtype = p.other_dtype()
    return p.line(f"torch.{p.draw(st.sampled_from(['mm', 'matmul']))}({a}, {operand(p, (k, n))})"), None


_WAYS = {
    "matmul": _matmul,
    "matmul again": _matmul,
    "linear": _linear,
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "others": _others,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "gram": _gram,
    "twice": _twice,
}


def below(p, name, shape):
    """The name of what a chain of views, factors, terms and sums makes of the result `name` of the given shape."""
    for _ in range(p.draw(st.integers(0, 3))):
        kind = p.draw(st.sampled_from(sorted(_BELOW)))
        name, shape = _BELOW[kind](p, name, shape)
    return name, shape


def _permute(p, x, shape):
    perm = tuple(p.draw(st.permutations(range(len(shape)))))
    return p.line(f"{x}.permute({perm})"), tuple(shape[i] for i in perm)


def _reshape(p, x, shape):
    new = p.draw(regrouped(shape))
    return p.line(f"{x}.reshape({new})"), new


def _unsqueeze(p, x, shape):
    at = p.draw(st.integers(0, len(shape)))
    return p.line(f"{x}.unsqueeze({at})"), (*shape[:at], 1, *shape[at:])


def _scale(p, x, shape):
    return p.line(
        p.draw(st.sampled_from([f"torch.mul({x}, 0.25)", f"torch.true_divide({x}, 8)", f"torch.neg({x})"]))
    ), shape


def _add(p, x, shape):
    keep = [p.draw(st.booleans()) for _ in shape]
    other = tuple(s if k else 1 for s, k in zip(shape, keep)) if p.draw(st.booleans()) else shape[-1:]
    p.dtype = p.draw(st.sampled_from(DTYPES)) if p.mixed else "float64"
    term = operand(p, other, 1)
    forms = [f"add({x}, {term})", f"add({term}, {x})", f"sub({x}, {term})", f"add({term}, {x}, alpha=2)"]
    return p.line(f"torch.{p.draw(st.sampled_from(forms))}"), shape


def _sum(p, x, shape):
    if not shape:
        return x, shape
    d = p.draw(st.integers(0, len(shape) - 1))
    keep = p.draw(st.booleans())
    return p.line(f"{x}.sum({d}, keepdim={keep})"), (*shape[:d], *([1] if keep else []), *shape[d + 1 :])


def _activation(p, x, shape):
    # In 16 bits a relu's derivative may be the other one by rounding alone.
    forms = ["tanh({})", "nn.functional.gelu({}, approximate='tanh')", *([] if p.mixed else ["relu({})"])]
    return p.line(f"torch.{p.draw(st.sampled_from(forms))}".format(x)), shape


def _cast(p, x, shape):
    found = p.meaning(x) if p.mixed else None
    if found is None:
        return x, shape
    p.dtype = found[1]
    return p.line(f"{x}.to(torch.{p.other_dtype()})"), shape


def _contiguous(p, x, shape):
    return p.line(f"{x}.contiguous()"), shape


_BELOW = {
    "permute": _permute,
    "permute again": _permute,
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "scale": _scale,
    "add": _add,
    "sum": _sum,
    "activation": _activation,
    "contiguous": _contiguous,
    "cast": _cast,
}
