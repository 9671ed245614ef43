"""python -m tests.random_programs --count 100000: random programs against eager, many in one compilation."""

import argparse
import collections
import gc
import sys
import time
import warnings

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests import lab  # noqa: F401  (before anything else of these tests: it imports thunder)
from tests.random_programs import bundles
from tests.random_programs.comparing import Reference
from tests.random_programs.programs import programs

# Hypothesis remembers what it has drawn: a new one starts after so many.
_CHUNK = 1000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="programs in all")
    parser.add_argument("--seed", type=int, default=0, help="of the first chunk of programs; each later one counts on")
    parser.add_argument("--bundle", type=int, default=10, help="programs in one compilation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    bundles.leave_out_checks()
    gc.disable()
    gc.freeze()
    counts, start = collections.Counter(), time.monotonic()
    for chunk in range(-(-options.count // _CHUNK)):
        seed, count = options.seed + chunk, min(_CHUNK, options.count - chunk * _CHUNK)
        for bundle in bundled(draw(count, seed), options.bundle, seed):
            counts += run_bundle(bundle, seed)
            gc.collect()
        print(f"{counts.total()} programs, {time.monotonic() - start:.0f} s, seed {seed}: {dict(counts)}", flush=True)
    return int(counts["failed"] > 0)


def draw(count, seed):
    """The programs of a seed."""
    drawn = []

    @seeded(seed)
    @settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(programs())
    def take(program):
        drawn.append(program)

    take()
    return drawn


def bundled(drawn, size, seed):
    """Bundles of programs compiled alike: with gradients or without, written to or not; what eager refuses is alone."""
    kinds = collections.defaultdict(list)
    for source, inputs in drawn:
        reference = Reference(source, inputs, seed)
        refused = bool(reference.eager.refused or reference.eager.backward_refused)
        kinds[refused, "_(" in source, any(x.grad for x in inputs)].append(reference)
    for (refused, *_), alike in kinds.items():
        step = 1 if refused else size
        yield from (alike[i : i + step] for i in range(0, len(alike), step))


def run_bundle(bundle, seed):
    """How many of the programs came out how; each that fails is printed."""
    if len(bundle) == 1:
        return judged(bundle)
    try:
        doubtful = bundles.doubtful(bundle, seed)
    except Exception as error:
        half = len(bundle) // 2
        counts = run_bundle(bundle[:half], seed) + run_bundle(bundle[half:], seed)
        if counts["as eager"] == len(bundle):
            print(f"# fails only together: {error}\n" + "\n".join(x.source for x in bundle), flush=True)
            counts["together"] += 1
        return counts
    counts = judged(doubtful)
    counts["as eager"] += len(bundle) - len(doubtful)
    return counts


def judged(programs):
    """How many of the programs, each compiled alone, come out how."""
    counts = collections.Counter()
    for reference in programs:
        source, inputs, seed = reference.source, reference.inputs, reference.seed
        try:
            counts[bundles.judged(reference)] += 1
        except Exception as error:
            counts["failed"] += 1
            print(f"{source}# {inputs}, seed {seed}\n# {type(error).__name__}: {error}", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main())
