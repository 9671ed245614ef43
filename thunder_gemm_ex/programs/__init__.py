"""Small programs whose matmuls meet transposes: what the demo shows, the tests check and the benchmarks time.

Every module here is plain PyTorch and has two functions:

    program(device="cpu", dtype=...)                        -> the callable or torch.nn.Module to compile
    inputs(device="cpu", dtype=..., ..., requires_grad=...) -> its arguments, a tuple of tensors

`inputs` takes the sizes as keywords, each with a default that two CPU cores manage.
"""

import importlib
from types import ModuleType

NAMES = ("neva_g23", "mistral_rope", "attention_bshd", "lora_linear", "moe_bmm", "mlp_gelu")


def load(name: str) -> ModuleType:
    """The module of the program called `name`, one of `NAMES`."""
    if name not in NAMES:
        raise ValueError(f"no program is called {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}")
