"""Shared by all tests. `tests.lab` comes first: it is where `thunder` must be imported for the first time."""

import os

import pytest
import torch

from tests import lab  # noqa: F401  (before any test module imports thunder)

# An error of our own fails the test, where it would leave a user's program to Thunder.
os.environ["THUNDER_GEMM_EX_RAISE"] = "1"


@pytest.fixture(autouse=True)
def seeded():
    """Random inputs are the same in every run and in every order of the tests."""
    torch.manual_seed(0)
