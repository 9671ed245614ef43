"""Folding the views around one product, where the spec engine's cost says that it is worth it.

Operands read the tensor as it is stored; the result is written where the last contiguous node of the chain below it was,
so every stride that anyone sees stays what it was.
"""

from __future__ import annotations

import dataclasses

import torch

from thunder_gemm_ex.inductor.products import Product
from thunder_gemm_ex.inductor.views import View, known, view_at
from thunder_gemm_ex.spec import Contraction, Cost, cost, fold_operand, fold_result
from thunder_gemm_ex.spec.cost import from_dims


@dataclasses.dataclass(frozen=True)
class _Prefix:
    """The first views of a chain, folded: the contraction, the node at the far end, and what that costs."""

    spec: Contraction
    end: torch.fx.Node
    views: tuple[View, ...]
    cost: Cost


def fold(product: Product) -> None:
    """Fold what is worth folding: results first, which may let an operand's reshape go, then operands, then results."""
    _fold_result(product)
    for operand in ("a", "b") if product.bias is None else ("a", "b", "bias"):
        _fold_operand(product, operand)
    _fold_result(product)


def _fold_operand(product: Product, operand: str) -> None:
    chain = _chain_above(getattr(product, operand), product.written)
    found, refused = _operand_prefixes(product, operand, chain)
    best = min(reversed(found), key=lambda p: p.cost)  # min keeps the first of equals: here the longest
    if best.views:
        setattr(product, operand, best.end)
        product.spec = best.spec
        product.folded += [f"{view.name} of {operand}" for view in best.views]
    if best is not found[-1]:
        worse = found[found.index(best) + 1]
        refused = f"{worse.views[-1].name} above {operand} stays: folded, it would cost {worse.cost} for {best.cost}"
    if refused:
        product.kept.append(refused)


def _chain_above(node: torch.fx.Node, written: frozenset[torch.fx.Node]) -> list[View]:
    chain = []
    while (view := view_at(node)) is not None and not {view.node, view.source} & written:
        chain.append(view)
        node = view.source
    return chain


def _operand_prefixes(product: Product, operand: str, chain: list[View]) -> tuple[list[_Prefix], str]:
    """Every prefix of the chain above an operand that can be folded, and why the chain ends if not at its base."""
    spec = product.spec
    found: list[_Prefix] = []
    copies = _own_copies(chain)
    for length in range(len(chain) + 1):
        end = chain[length - 1].source if length else getattr(product, operand)
        if length:
            folded = fold_operand(spec, operand, chain[length - 1].steps)
            if folded is None:
                return found, f"{chain[length - 1].name} above {operand} stays: it cannot be stated in labels"
            spec = folded
        nodes = {"a": product.a, "b": product.b} | ({operand: end} if operand != "bias" else {})
        found.append(_Prefix(spec, end, tuple(chain[:length]), _cost(spec, nodes["a"], nodes["b"], copies[length])))
    return found, ""


def _own_copies(chain: list[View]) -> list[int]:
    """For each prefix, the copies of the chain that remain above it and that the product alone wants."""
    # A copy with other users is made whether the product reads it or not.
    alone, mine = True, []
    for view in chain:
        alone = alone and len(view.node.users) == 1
        mine.append(view.copies and alone)
    return [sum(mine[length:]) for length in range(len(chain) + 1)]


def _fold_result(product: Product) -> None:
    if product.c is not None:
        return  # c is added in the output's order: with another order it would need the opposite view
    views: list[View] = []
    found: tuple[Contraction, torch.fx.Node, list[View]] | None = None
    refused = ""
    spec, node = product.spec, product.out
    while (view := _only_user(node, product.written)) is not None:
        folded = fold_result(spec, view.steps)
        if folded is None:
            refused = f"{view.name} below stays: it cannot be stated in labels"
            break
        spec, node, views = folded, view.node, [*views, view]
        if not known(node).is_contiguous():
            refused = f"{view.name} below stays: its strides are not those that a product writes"
            continue
        before = _cost(product.spec, product.a, product.b, sum(v.copies for v in views))
        after = _cost(spec, product.a, product.b, 0)
        if after <= before:
            found, refused = (spec, node, views), ""
        else:
            refused = f"{view.name} below stays: folded, it would cost {after} for {before}"
    if found is not None:
        product.spec, product.out = found[:2]
        product.folded += [f"{view.name} of the result" for view in found[2]]
    if refused and refused not in product.kept:
        product.kept.append(refused)


def _only_user(node: torch.fx.Node, written: frozenset[torch.fx.Node]) -> View | None:
    users = list(node.users)
    view = view_at(users[0]) if len(users) == 1 else None
    return None if view is None or {view.node, view.source} & written else view


def _cost(spec: Contraction, a: torch.fx.Node, b: torch.fx.Node, copies: int) -> Cost:
    """The cost of a contraction on these nodes with the strides that they have, and `copies` made around it."""
    strides = [from_dims(spec, dims, known(node).stride()) for dims, node in ((spec.a, a), (spec.b, b))]
    return cost(spec, *strides, copies=copies)
