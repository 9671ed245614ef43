"""Shared by all tests. `tests.lab` comes first: it is where `thunder` must be imported for the first time."""

import pytest
import torch

from tests import lab  # noqa: F401  (before any test module imports thunder)


@pytest.fixture(autouse=True)
def seeded():
    """Random inputs are the same in every run and in every order of the tests."""
    torch.manual_seed(0)
