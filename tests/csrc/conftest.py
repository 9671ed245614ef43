"""The planner alone, compiled once a session."""

import pytest

from tests.csrc.planner import Planner


@pytest.fixture(scope="session")
def planner(tmp_path_factory):
    """csrc's contraction, labels and layout without CUDA and tvm."""
    return Planner(tmp_path_factory.mktemp("planner"))
