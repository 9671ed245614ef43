"""What only a device can show, see docs/limits.md. `pytest -m gpu` where there is one; skipped where there is none."""

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Everything in this folder is marked `gpu`, and skipped without a CUDA device."""
    for item in items:
        if HERE in Path(item.fspath).parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="torch finds no CUDA device"))
