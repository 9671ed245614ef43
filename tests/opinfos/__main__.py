"""All samples of all OpInfos: `python -m tests.opinfos`. Prints a table, and exits with 1 if something is wrong."""

import collections
import os
import sys

os.environ["THUNDER_GEMM_EX_RAISE"] = "1"

from tests import lab  # noqa: F401  (where thunder is imported first)
from tests.opinfos.comparing import Wrong, check, check_error
from tests.opinfos.sources import DTYPES, FURTHER, SOURCES


def outcomes(source):
    """("right" | "as Thunder" | "wrong", words) of every sample: forward, gradient, errors."""
    for dtype in [d for d in DTYPES + FURTHER if d in source.dtypes]:
        for grad in (False, True) if dtype in DTYPES else (False,):
            for sample in source.samples(dtype):
                try:
                    refusal = check(source, sample, dtype, grad)
                    yield "as Thunder" if refusal else "right", refusal
                except Wrong as wrong:
                    yield "wrong", f"{dtype} {'gradient' if grad else 'forward'} {wrong}"
    for sample in source.errors():
        try:
            check_error(source, sample)
            yield "right", None
        except Wrong as wrong:
            yield "wrong", f"error {wrong}"


def main() -> int:
    """Run and print."""
    total = collections.Counter()
    print(f"{'operation':34}{'right':>7}{'as Thunder':>12}{'wrong':>7}")
    for source in SOURCES:
        found, words = collections.Counter(), collections.Counter()
        for outcome, said in outcomes(source):
            found[outcome] += 1
            words.update([f"{outcome}: {said}"] if said else [])
        total += found
        print(f"{source.name:34}{found['right']:7}{found['as Thunder']:12}{found['wrong']:7}", flush=True)
        for said, count in words.items():
            print(f"    {count} {said[:300]}", flush=True)
    print(f"{'':34}{total['right']:7}{total['as Thunder']:12}{total['wrong']:7}")
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
