"""Reading compiled functions: the lines of their final traces that compute something."""

from collections.abc import Callable
from typing import Any

BOOKKEEPING = {"unpack_trivial", "unpack_sequence", "clear_mutable_collection", "python_del", "python_return"}


def trace_lines(jfn: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The last computation's forward and backward lines; no backward where nothing required a gradient."""
    import thunder

    forward, backward = thunder.last_traces(jfn), thunder.last_backward_traces(jfn)
    return computing_lines(forward[-1]), computing_lines(backward[-1]) if backward else []


def computing_lines(trace: Any) -> list[str]:
    """One printed line for each bound symbol that computes, without the comment that gives its type."""
    return [
        bsym.python(0, print_depth=1)[-1].split("  # ")[0].strip()
        for bsym in trace.bound_symbols
        if bsym.sym.name not in BOOKKEEPING
    ]
