"""Timing by interleaved rounds: every round times every candidate once, so that drift of the machine hits all alike.

Compare candidates by ratios within a round; a median in seconds says little about another machine.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator

Candidates = dict[str, Callable[[], object]]


def interleaved(
    candidates: Candidates, *, rounds: int, seconds: float = 0.01, finish: Callable[[], object] | None = None
) -> Iterator[dict[str, float]]:
    """Yields for each round the seconds per call of each candidate.

    Args:
        rounds: how often each candidate is measured.
        seconds: about how long one measurement lasts; short calls are repeated within it.
        finish: waits for what was started, such as torch.cuda.synchronize; once a measurement, inside its time.

    The order is drawn anew each round, the same in every run: a candidate that always followed the same other would be
    measured with the caches and threads as that one leaves them (8 % of a whole model's forward on two cores).
    """
    finish = finish or (lambda: None)
    calls = {name: calls_for(candidate, seconds, finish) for name, candidate in candidates.items()}
    for order in orders(list(candidates), rounds):
        took = {name: time_calls(candidates[name], calls[name], finish) / calls[name] for name in order}
        yield {name: took[name] for name in candidates}


def orders(names: list[str], rounds: int) -> Iterator[list[str]]:
    """An order of the names for each round."""
    draw = random.Random(0)
    for _ in range(rounds):
        yield draw.sample(names, len(names))


def calls_for(candidate: Callable[[], object], seconds: float, finish: Callable[[], object]) -> int:
    """How many calls take about `seconds`, at least one; also warms the candidate up."""
    calls = 1
    while True:
        took = time_calls(candidate, calls, finish)
        if took >= seconds / 2 or calls >= 1 << 20:
            return max(1, round(calls * seconds / max(took, 1e-9)))
        calls *= 4


def time_calls(candidate: Callable[[], object], calls: int, finish: Callable[[], object]) -> float:
    """Seconds for `calls` calls."""
    start = time.perf_counter()
    for _ in range(calls):
        candidate()
    finish()
    return time.perf_counter() - start


def median_ratio(rounds: list[dict[str, float]], slow: str, fast: str) -> float:
    """The median over rounds of time(slow) / time(fast): above 1, `fast` is faster."""
    return statistics.median(took[slow] / took[fast] for took in rounds)
