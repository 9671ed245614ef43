"""Rounds in which each call is timed alone with nothing in the L2 cache: what a product costs amid a model's other work."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from thunder_gemm_ex.cli._interleave import orders
from thunder_gemm_ex.tuning.measure import Clock

CALLS = 5  # of a candidate in a round; their median counts


def cold_rounds(candidates: dict[str, Callable], rounds: int, clock: Clock) -> Iterator[dict[str, float]]:
    """Yields for each round the seconds per call of each candidate; the order is drawn anew each round."""
    for order in orders(list(candidates), rounds):
        took = {name: statistics.median(clock.time(candidates[name]) for _ in range(CALLS)) * 1e-6 for name in order}
        yield {name: took[name] for name in candidates}
