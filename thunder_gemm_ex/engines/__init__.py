"""Engines: what carries a contraction out. They know specs and torch, never traces or rules."""
