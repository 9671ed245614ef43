"""The products of an ATen graph, each stated as a contraction."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from thunder_gemm_ex.inductor.views import known, tensor_of
from thunder_gemm_ex.spec import Contraction, plain, print_spec

aten = torch.ops.aten

_BARE = {aten.mm.default, aten.bmm.default}
_ADDING = {aten.addmm.default, aten.baddbmm.default}


@dataclasses.dataclass(eq=False)
class Product:
    """One product, and what the folds made of it: `spec` on the nodes `a`, `b` and `bias` gives what `out` gave."""

    node: torch.fx.Node
    spec: Contraction
    a: torch.fx.Node
    b: torch.fx.Node
    out: torch.fx.Node
    bias: torch.fx.Node | None = None
    c: torch.fx.Node | None = None
    alpha: float = 1
    beta: float = 0
    written: frozenset[torch.fx.Node] = frozenset()
    folded: list[str] = dataclasses.field(default_factory=list)
    kept: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        done = ", ".join(self.folded) or "nothing"
        return f"{self.node.name}: {print_spec(self.spec)}: folded {done}" + "".join(f"; {why}" for why in self.kept)


def find_products(graph: torch.fx.Graph) -> Iterator[Product]:
    """Every mm, bmm, addmm and baddbmm whose tensors are plain and of known sizes."""
    written = frozenset(_written(graph))
    for node in list(graph.nodes):
        if node.op != "call_function" or tensor_of(node) is None:
            continue
        if node.target in _BARE:
            product = _product(node, node.args[0], node.args[1])
        elif node.target in _ADDING:
            product = _adding(node)
        else:
            continue
        if product is not None:
            product.written = written
            yield product


def _product(node: torch.fx.Node, a: Any, b: Any) -> Product | None:
    x, y, out = tensor_of(a), tensor_of(b), known(node)
    # mm of integers or with an out_dtype stays: the operator has neither a promise nor an argument for them.
    if x is None or y is None or not (x.dtype == y.dtype == out.dtype) or not x.dtype.is_floating_point:
        return None
    return Product(node, plain([tuple(x.shape), tuple(y.shape)]), a, b, node)


def _adding(node: torch.fx.Node) -> Product | None:
    first: Any = node.args[0]
    product, added = _product(node, *node.args[1:3]), tensor_of(first)
    if product is None or added is None or added.dtype != known(node).dtype or len(node.args) > 3:
        return None
    terms: dict[str, Any] = {"alpha": 1, "beta": 1} | node.kwargs
    product.alpha, beta = terms["alpha"], terms["beta"]
    if beta == 0:
        return product
    n = product.spec.out[-1]
    if beta == 1 and added.dim() == 1 and tuple(added.shape) == tuple(product.spec.shape((n,))):
        product.bias, product.spec = first, dataclasses.replace(product.spec, bias=(n,))
    else:
        product.c, product.beta = first, beta
    return product


def _written(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """Nodes that some operation of the graph writes to: nobody may read them later than the graph now does."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for argument, value in zip(schema.arguments if schema is not None else (), node.args):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.fx.Node):
                yield value
