"""Rule: a ReLU or tanh-GELU below a matmul is the GEMM's epilogue, which also writes what the gradient will read.

GELU's gradient reads what went into GELU: the epilogue writes those values beside the result (its aux), and they take the
place of the product that is no tensor of its own any more. ReLU's reads the result, which is there anyway.
Not where anyone else reads the product, and not where a fuser takes the activation together with a neighbour: there it
is free, while here it would take an operation out of a region that is launched in any case.
"""

from __future__ import annotations

from collections.abc import Callable

from thunder.core import dtypes
from thunder.core.proxies import TensorProxy

from thunder_gemm_ex.graph import Activation, Graph, Matmul, Slope, is_backward
from thunder_gemm_ex.rules.fuel import Fuel
from thunder_gemm_ex.spec import atoms_of

# What cuBLASLt has epilogues for; double has none.
_DTYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16)


def take_activations(graph: Graph, served: Callable[[TensorProxy], bool], fuel: Fuel) -> None:
    """Let matmuls apply the activations below them. `served`: whether a tensor's device has an engine with epilogues."""
    for matmul in list(graph.matmuls.values()):
        found = _activation(graph, matmul)
        if found is None:
            continue
        reason = unfit(matmul, served) or _in_region(graph, found)
        if reason:
            matmul.kept["epilogue"] = f"{found.name} below stays: {reason}"
        elif fuel():
            _take(graph, matmul, found)


def unfit(matmul: Matmul, served: Callable[[TensorProxy], bool]) -> str:
    """Why a matmul has no epilogue whatever stands beside it, "" if it may have one."""
    if not served(matmul.a):
        return f"on {matmul.a.device.devicetype.name.lower()} it would be no part of the matmul's own call"
    if matmul.a.dtype not in _DTYPES:
        return f"cuBLASLt has no epilogues for {matmul.a.dtype}"
    if matmul.scales is not None:
        return "its operands have scales"
    if isinstance(matmul.alpha, TensorProxy) or not matmul.spec.k or not matmul.spec.out:
        return "the product is scaled by a tensor, sums nothing or is a single number"
    return "" if matmul.bias is None or _bias_fits(matmul) else "the bias is not along the result's last dimension"


def _bias_fits(matmul: Matmul) -> bool:
    """Whether the bias is as large as the result (then it is C), or along the side that is innermost in the result."""
    spec = matmul.spec
    mine, all_of_it = set(atoms_of(spec.bias or ())), set(atoms_of(spec.out))
    inner = all_of_it and atoms_of(spec.out)[-1]
    return mine == all_of_it or (matmul.beta == 1 and inner in mine and mine in (set(spec.m), set(spec.n)))


def _activation(graph: Graph, matmul: Matmul) -> Activation | None:
    """The activation that is all that becomes of a product, but for what the activation's own gradient reads."""
    name = matmul.out.name
    if matmul.epilogue or matmul.decision != "claimed" or name in graph.returned or name in graph.mutated:
        return None
    kinds = [graph.kind_at(p) for p in graph.live_users(name)]
    found = [x for x in kinds if isinstance(x, Activation)]
    slopes = [x for x in kinds if isinstance(x, Slope) and x.name == "gelu" and x.read.name == name]
    if len(found) != 1 or len(found) + len(slopes) < len(kinds):
        return None
    return found[0] if is_backward(graph.bsym_at(found[0].position)) == matmul.backward else None


def _in_region(graph: Graph, found: Activation) -> str:
    return "a fuser takes it into a region with its neighbours" if graph.fused_with_others(found.position) else ""


def _take(graph: Graph, matmul: Matmul, found: Activation) -> None:
    before = matmul.out
    slopes = [p for p in graph.live_users(before.name) if p != found.position]
    graph.take_result(matmul, found)
    matmul.epilogue = found.name
    if slopes:
        # The values before GELU keep the name that they have as the product.
        matmul.epilogue = "gelu_aux"
        graph.make_beside(matmul, "aux", before, users=slopes)
    matmul.folded.append(f"{found.name} of the result")
