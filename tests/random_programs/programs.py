"""Drawing whole programs: contractions, what is above and below them, what is written to, and what is returned."""

from hypothesis import strategies as st

from tests.random_programs.contractions import below, contraction
from tests.random_programs.program import Program
from tests.random_programs.source import operand
from tests.random_programs.updates import update

# Whether a program writes in place, and whether it mixes dtypes.
_KINDS = [*[(False, False)] * 2, *[(True, False)] * 3, *[(False, True)] * 2, (True, True)]


@st.composite
def programs(draw):
    """(source, inputs) of a program; `source` defines a function `program` of the inputs, and perhaps `after`."""
    writes, mixed = draw(st.sampled_from(_KINDS))
    p = Program(draw, draw(st.booleans()), writes, mixed)
    results = []
    for _ in range(draw(st.integers(1, 2))):
        added = _stretch(p)
        if added is None:
            # Eager refuses the program: both are to.
            return p.source(results or ["x0"]), p.inputs
        results += added
    results += [_more(p, results) for _ in range(draw(st.sampled_from([0, 0, 1, 2])))]
    return p.source(results, _after(p, results)), p.inputs


def _stretch(p):
    """The results of a contraction and of what is below it; None where eager refuses what was drawn."""
    draw = p.draw
    name, _ = contraction(p)
    _write(p)
    found = p.meaning(name)
    if found is None:
        return None
    p.know(name, *found)
    made, shape = below(p, name, found[0])
    _write(p, name)
    if draw(st.integers(0, 3)) == 0 and shape:
        found = p.meaning(made)
        if found is None:
            return None
        p.dtype = found[1]
        made = p.line(f"torch.matmul({made}, {operand(p, (shape[-1], draw(st.sampled_from([1, 3]))))})")
    found = p.meaning(made)
    if found is None:
        return None
    p.know(made, *found)
    _write(p, made)
    if p.writes and p.meaning(made) is None:
        return None
    return [made] if draw(st.integers(0, 3)) else [made, name]


def _write(p, last=None):
    if p.writes and p.known and p.draw(st.booleans()):
        update(p, last)


def _more(p, results):
    """One more output: an input, an operand, a result once more, or a view of any of these."""
    name = p.draw(st.sampled_from([*results, *(k[0] for k in p.known)]))
    shape = next((k[1] for k in p.known if k[0] == name), ())
    forms = ["{}", "{}.unsqueeze(0)", *(["{}.mT"] if len(shape) > 1 else []), *(["{}[:1]"] if shape else [])]
    return p.draw(st.sampled_from(forms)).format(name)


def _after(p, results):
    """What is done in place before the backward, now and then: eager raises there, if it has saved what changes."""
    if not p.grad or p.draw(st.integers(0, 5)):
        return ()
    names = [f"x{i}" for i in range(len(p.inputs))] + [f"outs[{i}]" for i in range(len(results))]
    return (f"{p.draw(st.sampled_from(names))}.{p.draw(st.sampled_from(['mul_(2)', 'add_(1)', 'zero_()']))}",)
