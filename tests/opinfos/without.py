"""A pytest plugin: what Thunder's tests import and this environment lacks, as stand-ins; tests that use one fail."""

import importlib.util
import sys
from unittest import mock

from tests import lab  # noqa: F401  (where thunder is imported first)

for name in ("fdm", "pytest_benchmark"):
    if importlib.util.find_spec(name) is None:
        stand_in = mock.MagicMock(__spec__=None, __path__=[])
        sys.modules[name] = stand_in
        sys.modules[f"{name}.fixture"] = stand_in
