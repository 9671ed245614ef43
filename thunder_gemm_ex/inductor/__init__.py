"""`gx.inductor_pass`: the same folds for torch.compile, on Inductor's graphs of ATen operations.

Beside the executor, on the same spec engine: views and products are read off an FX graph, folded by the same algebra where
the same cost rule says so, and written back as one call of the operator. Here strides are known, not assumed.

    torch.compile(fn, options={"post_grad_custom_pre_pass": gx.inductor_pass})
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

import thunder_gemm_ex.operator.library  # noqa: F401  (a compiled graph calls the operator)
from thunder_gemm_ex.inductor.fold import fold
from thunder_gemm_ex.inductor.products import Product, find_products
from thunder_gemm_ex.inductor.rewrite import rewrite

log = logging.getLogger(__name__)


class InductorPass(CustomGraphPass):
    """Folds views into mm, bmm, addmm and baddbmm; what gains nothing stays the ATen operation that it was.

    Set it as `post_grad_custom_pre_pass`, or, so that training keeps the tensors as they are stored for the backward instead
    of copies of them, as `joint_custom_post_pass` of torch._inductor.config. Products with symbolic sizes stay. What
    was folded, and why something was not, is logged at level DEBUG under "thunder_gemm_ex.inductor".
    """

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Rewrite `graph` in place."""
        for product in find_products(graph):
            fold(product)
            log.debug("%s", product)
            if product.folded:
                rewrite(graph, product)
        graph.eliminate_dead_code()
        graph.lint()  # type: ignore[no-untyped-call]

    def uuid(self) -> Any:
        """Inductor's cache key for this pass: what its code and the spec engine's say."""
        here = Path(__file__).resolve().parent
        files = [*here.glob("*.py"), *(here.parent / "spec").glob("*.py")]
        return get_hash_for_files(tuple(sorted(map(str, files))))


inductor_pass = InductorPass()

__all__ = ["InductorPass", "Product", "inductor_pass"]
