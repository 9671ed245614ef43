"""Random programs as Python source: a failing one prints as a function that can be pasted anywhere."""

import torch
from hypothesis import strategies as st

from tests.random_programs.inputs import LAYOUTS, Input, aliases

DTYPES = ["float64", "float32", "bfloat16", "float16"]


class Program:
    """The lines of a program under construction."""

    def __init__(self, draw, grad, writes=False, mixed=False):
        self.draw = draw
        self.grad = grad
        self.writes = writes
        self.mixed = mixed
        self.dtype = "float64"  # of the operands drawn next
        self.lines = []
        self.inputs = []
        self.known = []  # every value that has a name: (name, shape, dtype)
        self.count = 0

    def line(self, expression):
        """Add `t3 = expression`; the new name."""
        self.count += 1
        self.lines.append(f"t{self.count} = {expression}")
        return f"t{self.count}"

    def input(self, shape, dtype=None, layout=None):
        """An input of the shape: a new one, or one that is there already."""
        draw, dtype = self.draw, dtype or self.dtype
        same = [i for i, x in enumerate(self.inputs) if x.shape == shape and x.dtype == dtype]
        if same and layout is None and draw(st.booleans()):
            return f"x{draw(st.sampled_from(same))}"
        others = aliases(shape, dtype, self.inputs)
        layout = layout or draw(st.sampled_from(["plain", "plain", *LAYOUTS]))
        of = draw(st.sampled_from(others)) if layout == "alias" and others else None
        grad = self.grad and draw(st.integers(0, 3)) > 0
        self.inputs.append(Input(shape, "plain" if layout == "alias" and of is None else layout, grad, dtype, of))
        return self.know(f"x{len(self.inputs) - 1}", shape, dtype)

    def know(self, name, shape, dtype):
        """Remember a value, to be used or written to again; its name."""
        if (name, shape, dtype) not in self.known:
            self.known.append((name, shape, dtype))
        return name

    def shared(self, shape):
        """Perhaps a value that is there already, of the shape and the dtype wanted next."""
        found = [n for n, s, d in self.known if (s, d) == (shape, self.dtype)]
        return self.draw(st.sampled_from(found)) if found and self.draw(st.integers(0, 3)) == 0 else None

    def other_dtype(self):
        """A dtype that is cast to the one wanted next."""
        if not self.mixed:
            return "float32"
        return self.draw(st.sampled_from([d for d in DTYPES if d != self.dtype]))

    def meaning(self, name):
        """(shape, dtype) of a value of the program so far, from eager on the meta device; None where that refuses."""
        args = [torch.empty(x.shape, dtype=getattr(torch, x.dtype), device="meta") for x in self.inputs]
        try:
            with torch.no_grad():
                found = defined(self.source([name]))(*args)[0]
        except (RuntimeError, TypeError):
            return None
        return tuple(found.shape), str(found.dtype).removeprefix("torch.")

    def source(self, results, after=()):
        """The whole function; with `after`, also what is done to inputs and outputs between it and its backward."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        text = f"def program({names}):\n{_body(self.lines)}    return {', '.join(results)},\n"
        return text + (f"def after(outs, {names}):\n{_body(after)}" if after else "")


def _body(lines):
    return "".join(f"    {line}\n" for line in lines)


def defined(source, name="program"):
    """The function that a program's source defines; None for an `after` that it lacks."""
    scope = {"torch": torch}
    exec(source, scope)
    return scope.get(name)
