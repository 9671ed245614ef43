"""Comparing a program's outcome with eager's, and with that of Thunder alone where Thunder itself is no eager."""

import re

import thunder
import torch

from tests.checks import jit
from tests.random_programs.inputs import made
from tests.random_programs.outcomes import functional, outcome
from tests.random_programs.program import defined

_CAST = re.compile(r"\.to\(torch\.\w+\)")
_DTYPE = re.compile(r"torch\.(float16|bfloat16|float32)")


class Reference:
    """A program as eager runs it, and how far from it another outcome may be."""

    def __init__(self, source, inputs, seed):
        self.source, self.inputs, self.seed = source, inputs, seed
        self.after = defined(source, "after")
        self.eager = self.outcome(lambda program: program)
        names = {x.dtype for x in inputs} | set(_DTYPE.findall(source))
        self.eps = max(torch.finfo(getattr(torch, name)).eps for name in names)
        self._exact = self.eager if self.eps < 1e-10 else None

    def outcome(self, compile):
        """What comes of the program, compiled by `compile`."""
        return outcome(compile(defined(self.source)), self.after, made(self.inputs, self.seed))

    @property
    def exact(self):
        """The program in float64, with the values that eager had."""
        if self._exact is None:
            # Every cast of a program is to another dtype: it copies.
            source = _DTYPE.sub("torch.float64", _CAST.sub(".to(torch.float64, copy=True)", self.source))
            self._exact = outcome(defined(source), self.after, made(self.inputs, self.seed, exact=True))
        return self._exact

    def faults(self, ours):
        """{what differs from eager: how}, of what differs silently, and under "refused" what is refused by one only."""
        eager = self.eager
        if ours.refused or eager.refused:
            return _refusals("call", ours.refused, eager.refused)
        found = {
            "values": self._different(ours.outs, eager.outs, self.exact.outs),
            "inputs": self._different(ours.args, eager.args, self.exact.args),
            "strides": _unequal(ours.strides, eager.strides),
            "sharing": _unequal(ours.sharing, eager.sharing),
        }
        if ours.backward_refused:
            found |= _refusals("backward", ours.backward_refused, eager.backward_refused)
        else:
            # Where eager refuses, for what it has saved was written to, ours may be right instead.
            right = functional(self.source, self.inputs, self.seed) if eager.backward_refused else None
            if not eager.backward_refused:
                found["gradients"] = self._different(ours.grads, eager.grads, self.exact.grads)
            elif right is not None:
                found["gradients"] = self._different(ours.grads, right, right)
        return {what: how for what, how in found.items() if how}

    def _different(self, ours, eager, exact):
        """How tensors differ from eager's by more than twice its own error; "" if they do not."""
        for i, (x, y, z) in enumerate(zip(ours, eager, exact, strict=True)):
            if x is None or y is None:
                if x is not y:
                    return f"{i} is {x}, not {y}"
                continue
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                return f"{i} is {x.dtype} {tuple(x.shape)}, not {y.dtype} {tuple(y.shape)}"
            if y.numel():
                scale = max([z.abs().max().item(), 1.0, *(t.abs().max().item() for t in exact if t is not None)])
                error, allowed = _distance(x, z), 2 * _distance(y, z) + 4 * max(self.eps, 3e-13) * scale
                if not error <= allowed:
                    return f"{i} is {error:.3g} away, {allowed:.3g} allowed"
        return ""


def judge(reference, with_ours=jit, without=thunder.jit):
    """What was found of a program: "as eager", or how Thunder alone differs. AssertionError where ours is worse.

    `with_ours` and `without` compile the program, with the executor and with Thunder's own alone.
    """
    ours = reference.faults(reference.outcome(with_ours))
    if not ours:
        return "refused, as eager" if reference.eager.refused else "as eager"
    thunders = reference.faults(reference.outcome(without))
    if reference.after:
        # What is done before the backward may hide there what Thunder has wrong without it.
        bare = Reference(reference.source.partition("def after")[0], reference.inputs, reference.seed)
        thunders |= bare.faults(bare.outcome(without))
    if not _worse(ours, thunders):
        return "Thunder: " + ", ".join(sorted(thunders))
    for reason, sentence in _STATED.items():
        if reference.after and sentence in ours.get("refused", "") and not _worse(ours, {"refused": ""}):
            return f"ours: {reason}"
    raise AssertionError(f"{ours}; Thunder alone: {thunders}")


# What docs/limits.md says of a program whose inputs or outputs are written to before its backward.
_STATED = {
    "has saved the source of a copy": "has been modified by an inplace operation",
    "returns a view": "is a view and its base or another view of its base has been modified inplace",
}


def _worse(ours, thunders):
    """Whether something is silently otherwise than in eager that Thunder alone has right or refuses, or refused by ours."""
    # Where Thunder alone takes a write for another one, what comes of it is in one number or another.
    numbers = {"values", "inputs", "gradients"}
    allowed = set(thunders) | (numbers if numbers & set(thunders) else set()) | ({"refused"} if thunders else set())
    return not set(ours) <= allowed


def _refusals(where, ours, eager):
    if ours and eager:
        return {} if where == "backward" or type(ours) is type(eager) else {"error": f"{ours!r}, not {eager!r}"}
    if ours:
        return {"refused": f"{where}: {type(ours).__name__}: {str(ours)[:300]}"}
    return {f"{where} not refused": f"{type(eager).__name__}: {str(eager)[:300]}"}


def _unequal(ours, eager):
    return "" if ours == eager else f"{ours}, not {eager}"


def _distance(x, exact):
    return (x.to(exact.dtype) - exact).abs().max().item()
