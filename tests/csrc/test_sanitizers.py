"""The engine without Python under AddressSanitizer, UBSan and ThreadSanitizer; every count is fixed, every seed too."""

import pytest

from tests.csrc.sanitized import Sanitized

FUZZED = 200_000
THREADS, CALLS = 8, 400


@pytest.fixture(scope="module", params=["address", "thread"])
def engine(request, tmp_path_factory):
    """The engine and the double, compiled with one sanitizer."""
    return request.param, Sanitized(tmp_path_factory.mktemp(request.param), request.param)


def test_random_problems_break_nothing(engine):
    """Planned, declined, refused, failed on purpose, and each of those often enough to mean something."""
    sanitizer, built = engine
    count = FUZZED if sanitizer == "address" else FUZZED // 20
    told = built.run("fuzz", count, 1)
    assert told["problems"] == count
    for what in ("planned", "compared", "declined", "refused", "failed", "evictions", "hits"):
        assert told[what] > count / 1000, told


def test_threads_share_contractions_plans_and_workspaces(engine):
    told = engine[1].run("threads", THREADS, CALLS)
    assert (told["calls"], told["wrong"]) == (THREADS * CALLS, 0)
    # Every way through the cache was taken.
    assert min(told["hits"], told["misses"], told["evictions"]) > 100
