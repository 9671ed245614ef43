"""python -m tests.random_programs --count 100000: random programs against eager, many in one compilation."""

import argparse
import gc
import sys
import time
import warnings

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests import lab  # noqa: F401  (before anything else of these tests: it imports thunder)
from tests.random_programs import bundles
from tests.random_programs.programs import programs

# Hypothesis remembers what it has drawn: a new one starts after so many.
_CHUNK = 2000


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
    done, failed, start = 0, 0, time.monotonic()
    for chunk in range(-(-options.count // _CHUNK)):
        seed, count = options.seed + chunk, min(_CHUNK, options.count - chunk * _CHUNK)
        drawn = draw(count, seed)
        failed += sum(run_bundle(bundle, seed) for bundle in bundled(drawn, options.bundle))
        done += len(drawn)
        print(f"{done} programs, {failed} failed, {time.monotonic() - start:.0f} s, seed {seed}", flush=True)
    return int(failed > 0)


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


def bundled(drawn, size):
    """Bundles of programs, those with gradients apart from those without: the former are compiled in another way."""
    for grad in (False, True):
        alike = [p for p in drawn if any(x.grad for x in p[1]) == grad]
        yield from (alike[i : i + size] for i in range(0, len(alike), size))


def run_bundle(bundle, seed):
    """How many of the programs fail; each that does is printed."""
    try:
        bundles.check(bundle, seed)
        return 0
    except Exception as error:
        if len(bundle) > 1:
            alone = sum(run_bundle([program], seed) for program in bundle)
            if not alone:
                print(f"# fails only together: {error}\n" + "\n".join(s for s, _ in bundle), flush=True)
            return max(alone, 1)
        source, inputs = bundle[0]
        print(f"{source}# {inputs}, seed {seed}\n# {type(error).__name__}: {error}", flush=True)
        return 1
    finally:
        gc.collect()


if __name__ == "__main__":
    sys.exit(main())
