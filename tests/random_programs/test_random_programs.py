"""Random programs around matmuls against eager in float64: values, gradients, dtypes, strides and shared storage."""

import collections
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st

from tests.random_programs.comparing import Reference, judge
from tests.random_programs.programs import programs

# Each compiled on its own; each of the parts below takes its share. More in the environment for a long run.
EXAMPLES = int(os.environ.get("THUNDER_GEMM_EX_EXAMPLES", "1000"))
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_equal_eager(part):
    # A test for each part, so that they run side by side; without shrinking, for which compiling is too slow.
    @settings(
        max_examples=max(EXAMPLES // PARTS, 1),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize="THUNDER_GEMM_EX_EXAMPLES" not in os.environ,
    )
    @given(programs(), st.integers(0, 2**16).map(lambda seed: seed * PARTS + part))
    def check(drawn, seed):
        source, inputs = drawn
        note(f"{source}# {inputs}, seed {seed}")
        found = judge(Reference(source, inputs, seed))
        event(found)
        counts[found.partition(":")[0]] += 1

    counts = collections.Counter()
    check()
    # Else the grammar would mostly say what Thunder itself does otherwise.
    assert counts["Thunder"] + counts["ours"] < counts.total() / 3, counts


@pytest.mark.parametrize("seed", [0, 1])
def test_five_hundred_more_that_are_compiled_ten_at_once(seed):
    # In a process of its own: it leaves out steps of Thunder's that test nothing here.
    command = [sys.executable, "-W", "ignore", "-m", "tests.random_programs", "--count", "500", "--seed", str(seed)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "500 programs" in done.stdout
