"""What a random program writes to: inputs, operands, results and views of them, above and below the matmuls."""

from hypothesis import strategies as st

from tests.random_programs.program import DTYPES
from tests.random_programs.source import operand, regrouped


def update(p, last=None):
    """Write in place to something that is there: to the value named `last`, if given and half the time."""
    known = [k for k in p.known if k[0] == last] if last and p.draw(st.booleans()) else p.known
    name, shape, dtype = p.draw(st.sampled_from([k for k in known if _may_be_written(p, k[0])] or p.known))
    target, shape = _part(p, name, shape)
    p.dtype = p.draw(st.sampled_from(DTYPES)) if p.mixed and p.draw(st.integers(0, 3)) == 0 else dtype
    ways = ["add", "copy", "scale", "relu", *(["gemm"] if len(shape) in (2, 3) else [])]
    call = _WAYS[p.draw(st.sampled_from(ways))](p, shape)
    if target == name:
        p.line(f"{name}.{call}")
    else:
        p.lines.append(f"{target}.{call}")


def _may_be_written(p, name):
    """Eager refuses to write to a leaf that wants a gradient; that is drawn rarely."""
    leaf = name.startswith("x") and p.inputs[int(name[1:])].grad
    return not leaf or p.draw(st.integers(0, 9)) == 0


def _part(p, name, shape):
    """The value or a view of it, and its shape."""
    kind = p.draw(st.sampled_from(["all", "all", "slice", "transposed", "row", "unsqueezed", "reshaped"]))
    if kind == "slice" and shape:
        d = p.draw(st.integers(0, len(shape) - 1))
        cut = (*shape[:d], shape[d] - 1 or 1, *shape[d + 1 :])
        return f"{name}[{', '.join([':'] * d + [f':{cut[d]}'])}]", cut
    if kind == "transposed" and len(shape) > 1:
        return f"{name}.mT", (*shape[:-2], shape[-1], shape[-2])
    if kind == "row" and shape:
        return f"{name}[{p.draw(st.integers(0, shape[0] - 1))}]", shape[1:]
    if kind == "unsqueezed":
        return f"{name}.unsqueeze(0)", (1, *shape)
    if kind == "reshaped":
        new = p.draw(regrouped(shape))
        return f"{name}.reshape({new})", new
    return name, shape


def _add(p, shape):
    term = operand(p, _broadcast(p, shape), p.draw(st.integers(0, 1)))
    return p.draw(st.sampled_from(["add_({})", "sub_({})", "mul_({})", "add_({}, alpha=2)"])).format(term)


def _copy(p, shape):
    # Of a smaller tensor Thunder makes no copy.
    source = shape if p.draw(st.integers(0, 7)) else _broadcast(p, shape)
    return f"copy_({operand(p, source, p.draw(st.integers(0, 1)))})"


def _scale(p, shape):
    return p.draw(st.sampled_from(["mul_(0.5)", "add_(1)", "neg_()", "div_(4)", "zero_()"]))


def _relu(p, shape):
    # In 16 bits its derivative may be the other one by rounding alone.
    return "tanh_()" if p.mixed else "relu_()"


def _gemm(p, shape):
    *batch, m, n = shape
    k = p.draw(st.integers(1, 3))
    scales = p.draw(st.sampled_from(["", ", beta=0.5, alpha=2"]))
    name = "baddbmm_" if batch else "addmm_"
    return f"{name}({operand(p, (*batch, m, k))}, {operand(p, (*batch, k, n))}{scales})"


def _broadcast(p, shape):
    return tuple(s if p.draw(st.integers(0, 3)) else 1 for s in shape)


_WAYS = {"add": _add, "copy": _copy, "scale": _scale, "relu": _relu, "gemm": _gemm}
