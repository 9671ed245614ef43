"""Many small programs compiled as one, each on a line of its own, and what became of each: compiling takes most of a test.

The lines share nothing, neither inputs nor results, so that what one holds is told by whom its names are connected to.
"""

import dataclasses
import re

import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import flat, jit, layout, leaves
from thunder_gemm_ex.graph import Graph

_FILE = "<together>"


@dataclasses.dataclass
class Line:
    """One program: `expression` of its inputs, which are named in it."""

    expression: str
    inputs: dict[str, tuple[int, ...]]


@dataclasses.dataclass
class Outcome:
    """What became of a line: its symbols in the traces and how they print, the views beside gemms, the report's rows."""

    names: list[str]
    lines: list[str]
    beside: list[str]
    rows: list

    @property
    def reasons(self):
        """All that the report says about it."""
        return " / ".join(row.reason for row in self.rows)


def outcomes(lines, *, grad, **options):
    """{key: Outcome} of {key: Line}, after comparing values, gradients and strides of all with eager."""
    source, shapes = _source(lines)
    scope = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source, _FILE, "exec"), scope)
    inputs = [_integers(shape).requires_grad_(grad) for shape in shapes]
    jfn = jit(scope["together"], **options)
    _assert_equal(jfn, scope["together"], inputs, list(lines))
    traces = [thunder.last_traces(jfn)[-1], *(thunder.last_backward_traces(jfn) or [])[-1:]]
    graphs = [Graph(trace) for trace in traces]
    owner = _owners(graphs, lines)
    rows = gx.explain(jfn).rows
    found = {}
    for number, key in enumerate(lines):
        mine = [(g, p, b) for g in graphs for p, b in enumerate(g.bsyms) if owner(b) == number]
        beside = [x for g, p, b in mine if b.sym.name == "gemm" for x in _beside(g, b)]
        # A line of the function is a line of the source behind its head.
        here = [row for row in rows if row.where.endswith(f"{_FILE}:{number + 2}")]
        kept = [b for _, _, b in mine if b.sym.name != "python_del"]
        printed = [b.python(0, print_depth=1)[-1].strip() for b in kept]
        found[key] = Outcome([b.sym.name for b in kept], printed, beside, here)
    return found


def _integers(shape):
    """Small whole numbers: their products and sums are exact in any order."""
    return torch.randint(-3, 4, shape).float()


def _assert_equal(ours, eager, inputs, keys):
    """Outputs equal to the bit, with eager's strides, and gradients equal to the bit."""
    seen = []
    for call in (ours, eager):
        args = leaves(inputs)
        outs = flat(call(*args))
        torch.manual_seed(1)
        weights = [_integers(o.shape) for o in outs]
        wanted = args if args[0].requires_grad else []
        seen.append((outs, torch.autograd.grad(outs, wanted, weights, allow_unused=True) if wanted else ()))
    for key, x, y in zip(keys, seen[0][0], seen[1][0]):
        assert torch.equal(x, y), key
        assert layout(x) == layout(y), (key, x.stride(), y.stride())
    for x, y in zip(seen[0][1], seen[1][1], strict=True):
        assert torch.equal(x, y) if y is not None else x is None


def _source(lines):
    shapes, arguments, body = [], [], []
    for number, line in enumerate(lines.values()):
        expression = line.expression
        for name, shape in line.inputs.items():
            expression = _renamed(expression, name, f"{name}_{number}")
            arguments.append(f"{name}_{number}")
            shapes.append(shape)
        body.append(f"    o_{number} = {expression}\n")
    outs = ", ".join(f"o_{number}" for number in range(len(lines)))
    return f"def together({', '.join(arguments)}):\n{''.join(body)}    return {outs},\n", shapes


def _renamed(expression, name, other):
    return re.sub(rf"\b{name}\b", other, expression)


def _owners(graphs, lines):
    """A function from a bound symbol to the number of its line, or None: names that meet in an operation are one line's."""
    parent = {}

    def root(x):
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    bsyms = [b for g in graphs for b in g.bsyms if b.sym.name not in _SHARED]
    for bsym in bsyms:
        names = [p.name for p in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs)]
        for name in names[1:]:
            parent[root(name)] = root(names[0])
    number = {}
    for n, line in enumerate(lines.values()):
        number |= {root(f"{name}_{n}"): n for name in line.inputs}

    def owner(bsym):
        names = [p.name for p in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs)]
        return None if bsym.sym.name in _SHARED or not names else number.get(root(names[0]))

    return owner


# What concerns all lines at once, or no tensor.
_SHARED = {"python_return", "unpack_trivial", "unpack_sequence", "clear_mutable_collection", "python_del", "return"}


def _beside(graph, bsym):
    """The views that make an operand of a gemm, and those that alone want its result and are not what is returned."""
    above = [graph.view_making(p) for p in bsym.flat_proxy_args]
    out = bsym.flat_proxy_outs[0]
    users = graph.live_users(out.name)
    below = [graph.view_at(p) for p in users] if len(users) == 1 else []
    seen = graph.returned if out.name in graph.returned else set()
    found = [view for view in above if view is not None]
    found += [view for view in below if view is not None and view.out.name not in graph.returned | seen]
    return [f"{view.name}: {graph.bsyms[view.position].python(0, print_depth=1)[-1].strip()}" for view in found]
