"""The ATen engine: a contraction written as one torch expression, made once and then only called.

For CPU tensors and every device that cuBLASLt does not serve. A contraction becomes the shortest expression of views and
one of linear, mm, bmm, matmul, addmm, baddbmm (or mul where nothing is summed); BLAS gets transposed operands as flags.
A view is a `.reshape` that copies only where eager's own matmul would have copied. The expression is Python source: it is
compiled once a signature, it is what the report shows, and a call runs it and nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import torch

from thunder_gemm_ex.engines.arrange import aligned, arranged, as_matrix, joins_in_memory, listed, permuted
from thunder_gemm_ex.engines.loop import label_to_loop, looped, without
from thunder_gemm_ex.engines.numerics import wider
from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.contraction import Atom, Dims

NAMES = {
    "linear": torch.nn.functional.linear,
    "mm": torch.mm,
    "bmm": torch.bmm,
    "matmul": torch.matmul,
    "addmm": torch.addmm,
    "baddbmm": torch.baddbmm,
    "mul": torch.mul,
    "add": torch.add,
    "empty": torch.Tensor.new_empty,
    "looped": looped,
}


@dataclasses.dataclass(frozen=True)
class Terms:
    """Which terms besides the product a call has: D = alpha * a b + beta * c + bias.

    With `scaled_bias` it is the bias that beta scales: D = alpha * a b + beta * bias. `numerics` is how its sums may be
    rounded: one of `numerics.MODES`.
    """

    alpha: bool = False
    c: bool = False
    bias: bool = False
    scaled_bias: bool = False
    numerics: str = "torch"

    @property
    def any(self) -> bool:
        """Whether there is more to compute than the bare product."""
        return self.alpha or self.c or self.bias

    @property
    def plain(self) -> bool:
        """Whether it is the bare product, rounded as torch's flags say."""
        return not self.any and self.numerics == "torch"


@functools.lru_cache(maxsize=4096)
def compile_expression(source: str) -> Callable:
    """The function `(a, b, bias, c, alpha, beta) -> out` that evaluates the expression `source`."""
    return eval(f"lambda a, b, bias=None, c=None, alpha=1, beta=0: {source}", dict(NAMES))


def runner(source: str, terms: Terms) -> Callable:
    """`compile_expression(source)`, under "strict" in a wider type where torch's flags would let ATen compute in less."""
    run = compile_expression(source)
    if terms.numerics != "strict":
        return run

    def strict(a, b, bias=None, c=None, alpha=1, beta=0):
        dtype = wider(a)
        if dtype is None:
            return run(a, b, bias, c, alpha, beta)
        raised = [None if x is None else x.to(dtype) for x in (a, b, bias, c)]
        return run(*raised, alpha, beta).to(a.dtype)

    return strict


def direct(spec: Contraction, terms: Terms) -> str | None:
    """The expression when one torch call means exactly `spec`, whatever the sizes and strides; else None.

    torch decides about copies there as it does for a user who writes that call.
    """
    if terms.alpha or terms.c or terms.scaled_bias:
        return None
    if _is_linear(spec) and (not terms.bias or spec.bias == (spec.b[0],)):
        return "linear(a, b, bias)" if terms.bias else "linear(a, b)"
    return None if terms.bias else _direct_product(spec)


def expression(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> str:
    """The expression for operands with the strides `a` and `b` (in elements), for any spec and terms."""
    found = direct(spec, terms)
    if found is not None:
        return found
    if not spec.k and not terms.any:
        return _multiply(spec)
    return looped_source(spec, terms, a, b) or _General(spec, terms, a, b).source()


def looped_source(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> str | None:
    """The expression as a loop over one batch label, None where the rule of `loop` is against it."""
    if terms.c or terms.bias:
        return None
    whole = _General(spec, terms, a, b)
    label = label_to_loop(spec, {"a": a, "b": b}, copied=whole.copied)
    if label is None:
        return None
    part, strides = without(spec, label, {"a": a, "b": b})
    views = [
        arranged(spec, name, dims, [(label,), *((x,) for x in atoms_of(dims) if x != label)])
        for name, dims in (("a", spec.a), ("b", spec.b))
    ]
    step = _General(part, terms, strides["a"], strides["b"])
    return f"looped(empty(a, {spec.shape(spec.out)}), lambda a, b, out: {step.into('out')}, {', '.join(views)})"


def account(spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> tuple[int, dict[str, int]]:
    """(library calls, elements copied by tensor: "a", "b", "result") of `expression`; for reports.

    Where one torch call means the spec, torch itself may copy more.
    """
    if direct(spec, terms) is not None or (not spec.k and not terms.any):
        return 1, {}
    whole = _General(spec, terms, a, b)
    label = None if terms.c or terms.bias else label_to_loop(spec, {"a": a, "b": b}, copied=whole.copied)
    if label is None:
        return 1, whole.copies()
    part, strides = without(spec, label, {"a": a, "b": b})
    calls = spec.sizes[label]
    step = _General(part, terms, strides["a"], strides["b"])
    copies = step.copies()
    if step.writes_in_place:
        copies.pop("result", None)
    return calls, {name: calls * elements for name, elements in copies.items()}


def _is_linear(spec: Contraction) -> bool:
    a, b, out = spec.a, spec.b, spec.out
    return len(b) == 2 and len(a) > 0 and a[-1] == b[1] and out == (*a[:-1], b[0])


def _direct_product(spec: Contraction) -> str | None:
    a, b, out = spec.a, spec.b, spec.out
    if len(a) < 2 or len(b) < 2 or len(out) < 2:
        return None
    for swapped in (False, True):
        left, right = ("b", "a") if swapped else ("a", "b")
        x, y = (b, a) if swapped else (a, b)
        for xt in (False, True):
            for yt in (False, True):
                if _is_matmul(_transposed(x, xt), _transposed(y, yt), out):
                    call = {(2, 2): "mm", (3, 3): "bmm"}.get((len(x), len(y)), "matmul")
                    if call == "bmm" and x[0] != y[0]:
                        call = "matmul"
                    return f"{call}({left}{'.mT' * xt}, {right}{'.mT' * yt})"
    return None


def _transposed(dims: Dims, flag: bool) -> Dims:
    return (*dims[:-2], dims[-1], dims[-2]) if flag else dims


def _is_matmul(a: Dims, b: Dims, out: Dims) -> bool:
    """torch.matmul's own contract on dimensions: batch broadcast, [m, k] @ [k, n] -> [m, n]."""
    if a[-1] != b[-2] or out[-2:] != (a[-2], b[-1]):
        return False
    rank = max(len(a), len(b))
    if len(out) != rank:
        return False
    for i in range(rank - 2):
        x, y = (dims[i - rank + len(dims)] if i - rank + len(dims) >= 0 else () for dims in (a, b))
        if out[i] != (x or y) or (x and y and x != y):
            return False
    return True


def _multiply(spec: Contraction) -> str:
    """Nothing is summed: a broadcast multiply, written in the order of the output."""
    order = atoms_of(spec.out)
    shape = ", ".join(map(str, spec.shape(spec.out)))
    factors = ", ".join(aligned(spec, name, dims, order) for name, dims in (("a", spec.a), ("b", spec.b)))
    return f"mul({factors}).reshape({shape}).contiguous()" if shape else f"mul({factors})"


def _place(spec: Contraction, group: Sequence[Atom]) -> int:
    """Where in the output a run of labels begins."""
    return atoms_of(spec.out).index(group[0]) if group else -1


class _General:
    """Batch, m, n and k each joined to one dimension: mm or bmm of views, and the way back to the output's dimensions."""

    def __init__(self, spec: Contraction, terms: Terms, a: Sequence[int], b: Sequence[int]) -> None:
        order = atoms_of(spec.out)
        # BLAS writes rows of n: where the output wants m innermost, the operands change places.
        self.swapped = bool(spec.m and spec.n) and order.index(spec.m[-1]) > order.index(spec.n[-1])
        self.spec = spec.swap() if self.swapped else spec
        self.names = ("b", "a") if self.swapped else ("a", "b")
        self.strides = (b, a) if self.swapped else (a, b)
        self.terms = terms
        self.k = self._cheaper_k()

    def source(self) -> str:
        """The expression whose value is the result."""
        spec = self.spec
        left, right, shape = self._matrices()
        order = (*spec.batch, *spec.m, *spec.n)
        in_place = order == atoms_of(spec.out)
        product, bias_done = self._product(left, right, shape, in_place)
        return self._finish(product, order, in_place, bias_done)

    def into(self, out: str) -> str:
        """The expression that writes the result of the bare product to the contiguous tensor `out`."""
        spec = self.spec
        left, right, shape = self._matrices()
        if self.writes_in_place:
            product, _ = self._product(left, right, shape, True)
            return f"{product.removesuffix(')')}, out={arranged(spec, out, spec.out, self._groups())})"
        product, _ = self._product(left, right, shape, False)
        # One copy, into place: the result's labels are the output's in another order.
        order, wanted = (*spec.batch, *spec.m, *spec.n), atoms_of(spec.out)
        view = f"{out}.view({listed([spec.sizes[x] for x in wanted])})"
        seen = f"{product}.reshape({listed([spec.sizes[x] for x in order])})"
        return f"{view}.copy_({seen}{permuted([order.index(x) for x in wanted])})"

    @property
    def writes_in_place(self) -> bool:
        """Whether `into` needs no copy: BLAS writes rows as far apart as they lie, if their elements are neighbours."""
        spec = self.spec
        runs = [x for g in sorted(self._groups(), key=lambda g: _place(spec, g)) for x in g]
        return runs == list(atoms_of(spec.out)) and (not spec.n or atoms_of(spec.out)[-1:] == spec.n[-1:])

    def _groups(self) -> list[tuple[Atom, ...]]:
        spec = self.spec
        return [*([spec.batch] if spec.batch else []), spec.m, spec.n]

    @property
    def copied(self) -> int:
        """Elements of the operands that have to be copied before the product."""
        return sum(self._copies(self.k).values())

    def copies(self) -> dict[str, int]:
        """Elements that are copied, by tensor: those of operands before the product, of the "result" behind it."""
        found = self._copies(self.k)
        if (*self.spec.batch, *self.spec.m, *self.spec.n) != atoms_of(self.spec.out):
            found["result"] = self.spec.extent(atoms_of(self.spec.out))
        return dict(sorted(found.items()))

    def _matrices(self) -> tuple[str, str, list[int]]:
        spec = self.spec
        lead = [spec.batch] if spec.batch else []
        left = as_matrix(spec, self.names[0], spec.a, lead, spec.m, self.k)
        right = as_matrix(spec, self.names[1], spec.b, lead, self.k, spec.n)
        return left, right, [spec.extent(g) for g in (*lead, spec.m, spec.n)]

    def _product(self, left: str, right: str, shape: Sequence[int], in_place: bool) -> tuple[str, bool]:
        """The product with as many of the terms as one addmm or baddbmm takes, and whether the bias is among them."""
        terms, batched = self.terms, bool(self.spec.batch)
        add = "baddbmm" if batched else "addmm"
        if terms.c and in_place:
            return f"{add}(c.reshape({listed(shape)}), {left}, {right}, beta=beta, alpha=alpha)", False
        bias = self._bias() if terms.bias and not terms.c else None
        if bias is not None:
            beta = "beta=beta, " if terms.scaled_bias else ""
            return f"{add}({bias}, {left}, {right}, {beta}alpha=alpha)", True
        if terms.alpha:
            # With beta=0 the first operand is not read: one element will do.
            return f"{add}(empty({self.names[0]}, ()), {left}, {right}, beta=0, alpha=alpha)", False
        return f"{'bmm' if batched else 'mm'}({left}, {right})", False

    def _bias(self) -> str | None:
        """The bias as [batch, m, n], broadcast where it lacks one of them; None if it has only a part of one."""
        spec = self.spec
        groups = ([spec.batch] if spec.batch else []) + [spec.m, spec.n]
        stored = set(atoms_of(spec.bias))
        if any(set(g) & stored and not set(g) <= stored for g in groups):
            return None
        wanted = [g if set(g) & stored else () for g in groups]
        while len(wanted) > 1 and not wanted[0]:
            wanted.pop(0)
        return arranged(spec, "bias", spec.bias, wanted)

    def _finish(self, product: str, order: Sequence[Atom], in_place: bool, bias_done: bool) -> str:
        spec, terms = self.spec, self.terms
        shape = spec.shape(spec.out)
        dims = ((spec.batch,) if spec.batch else ()) + (spec.m, spec.n)
        if not in_place:
            perm = [order.index(x) for x in atoms_of(spec.out)]
            product = f"{product}.reshape({listed([spec.sizes[x] for x in order])}).permute({listed(perm)})"
        if not in_place or dims != spec.out:
            product = f"{product}.reshape({listed(shape)})"
        if not in_place:
            product += ".contiguous()"
        if terms.c and not in_place:
            product = f"add({product}, c, alpha=beta)"
        if terms.bias and not bias_done:
            full = aligned(spec, "bias", spec.bias, atoms_of(spec.out))
            atoms = listed([spec.sizes[x] for x in atoms_of(spec.out)])
            beta = ", alpha=beta" if terms.scaled_bias else ""
            product = f"add({product}.reshape({atoms}), {full}{beta}).reshape({listed(shape)})"
        return product

    def _cheaper_k(self) -> tuple[Atom, ...]:
        """The order of the summed atoms that copies fewer elements: one operand's order may force a copy of the other."""
        spec, kept = self.spec, set(self.spec.k)
        orders = [tuple(x for x in atoms_of(dims) if x in kept) for dims in (spec.a, spec.b)]
        return min(orders, key=lambda k: sum(self._copies(k).values()))

    def _copies(self, k: tuple[Atom, ...]) -> dict[str, int]:
        spec = self.spec
        sides = ((spec.a, (spec.batch, spec.m, k)), (spec.b, (spec.batch, k, spec.n)))
        return {
            name: spec.extent(atoms_of(dims))
            for name, strides, (dims, groups) in zip(self.names, self.strides, sides)
            if not joins_in_memory(spec, dims, strides, groups)
        }
