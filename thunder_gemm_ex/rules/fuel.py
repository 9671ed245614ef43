"""Optimization fuel: what a rule asks before each rewrite, so that a wrong result can be bisected."""

from __future__ import annotations

from collections.abc import Callable

# Takes one unit; False when there is none left, and then nothing is rewritten.
Fuel = Callable[[], bool]
