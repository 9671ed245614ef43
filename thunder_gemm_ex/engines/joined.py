"""A contraction as one mm or bmm: batch, m, n and k each joined to one dimension, written as source for `aten`."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_gemm_ex.engines.arrange import aligned, arranged, as_matrix, joins_in_memory, listed, permuted
from thunder_gemm_ex.engines.terms import Terms
from thunder_gemm_ex.spec import Contraction, atoms_of
from thunder_gemm_ex.spec.contraction import Atom


def _place(spec: Contraction, group: Sequence[Atom]) -> int:
    """Where in the output a run of labels begins."""
    return atoms_of(spec.out).index(group[0]) if group else -1


class Joined:
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
        assert spec.bias is not None
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
            assert spec.bias is not None
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
