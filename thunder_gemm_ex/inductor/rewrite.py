"""Writing a folded product back: one call of the operator in the place of the last node that it stands for."""

from __future__ import annotations

from typing import Any

import torch

from thunder_gemm_ex.inductor.products import Product
from thunder_gemm_ex.inductor.views import known
from thunder_gemm_ex.spec import print_spec


def rewrite(graph: torch.fx.Graph, product: Product) -> None:
    """Put the product into the graph; the nodes that nobody uses any more fall to dead code elimination."""
    old, value = product.out, known(product.out)
    # A wrong shape here would be accepted in silence by everything downstream.
    assert product.spec.shape(product.spec.out) == tuple(value.shape), (str(product), value.shape)
    arguments = (
        product.a,
        product.b,
        print_spec(product.spec),
        product.bias,
        None,
        product.alpha,
        product.beta,
        product.c,
    )
    with graph.inserting_before(old):
        new = graph.call_function(torch.ops.thunder_gemm_ex.gemm.default, _without_defaults(arguments))
    # Shape, dtype and strides are those of the node that it stands for, and so is the line of the user's program.
    new.meta.update(old.meta)
    old.replace_all_uses_with(new)


def _without_defaults(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    defaults = (None, None, None, None, None, 1, 0, None)
    last = max(
        i for i, (value, default) in enumerate(zip(arguments, defaults)) if value is not default and value != default
    )
    return arguments[: last + 1]
