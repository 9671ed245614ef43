"""ThunderFX splits off to Inductor what Thunder only knows as an opaque torch operation; what enters here is not that.

There is no public way to say so: the splitter asks one function, which is wrapped. It answers as before for every
program that is not compiled with this executor.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from thunder_gemm_ex.front_door.entries import entered

# Whether Thunder takes a node, and if not, why.
Supported = Callable[[torch.fx.Node, dict[str, Any]], tuple[bool, Any]]


def teach_splitter(executor_name: str) -> bool:
    """Let ThunderFX keep the operations of the front door where the executor is in use; False if this Thunder differs."""
    try:
        from thunder.dynamo import splitter, utils
    except ImportError:
        return False
    original = getattr(utils, "is_node_supported_by_thunder", None)
    if original is None or list(inspect.signature(original).parameters) != ["node", "thunder_options"]:
        return False
    found = functools.wraps(original)(_asking(original, executor_name))
    modules: tuple[Any, ...] = (utils, splitter)
    for module in modules:
        if getattr(module, "is_node_supported_by_thunder", None) is original:
            module.is_node_supported_by_thunder = found
    return True


def _asking(original: Supported, executor_name: str) -> Supported:
    def supported(node: torch.fx.Node, thunder_options: dict[str, Any]) -> tuple[bool, Any]:
        target: Any = getattr(torch.Tensor, str(node.target), None) if node.op == "call_method" else node.target
        if target in entered and _in_use(thunder_options, executor_name) and not _reads_another_kind(node):
            from thunder.dynamo.utils import try_execute_thunder_symbol

            # Its annotation wants a symbol; what it does with that is call it.
            recorded: Any = entered[target]
            return try_execute_thunder_symbol(recorded, node, thunder_options)
        return original(node, thunder_options)

    return supported


def _reads_another_kind(node: torch.fx.Node) -> bool:
    """Whether the node reads a tensor that is made of others, such as a DTensor: those do not enter by this door."""
    return any(is_traceable_wrapper_subclass(x.meta.get("example_value")) for x in node.all_input_nodes)


def _in_use(thunder_options: dict[str, Any], executor_name: str) -> bool:
    import thunder

    executors = thunder_options.get("executors")
    executors = thunder.get_default_executors() if executors is None else executors
    return any(getattr(ex, "name", ex) == executor_name for ex in executors)
