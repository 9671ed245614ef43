"""Reports about graphs, streams, workspaces, keys, aliases and tensors that are not plain."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, decisions, jit
from tests.cublaslt.problems import run, spec_of
from tests.cublaslt.test_safety import stream
from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.engines.operation import Operation

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))


def randn(*shape):
    return torch.randn(*shape)


# 32 to 35: workspaces -------------------------------------------------------------------------------------------------


def test_pytorch_193402_a_captured_call_never_uses_memory_that_others_free(double):
    """Its workspace is from the graph's own pool; one that later calls grow and free is another."""
    double.lib.double_want_workspace(1 << 12)
    x, y = randn(5, 7), randn(7, 6)
    with stream(0x7100):
        run(SPEC, x, y)
        outside = double.last()["workspace_at"]
        double.lib.double_capturing(1)
        run(SPEC, x, y)
        captured = double.last()["workspace_at"]
        double.lib.double_capturing(0)
        cublaslt.extension().cache_clear()
        double.lib.double_want_workspace(1 << 16)
        run(SPEC, x, y)
    assert captured not in (0, outside)
    assert double.last()["workspace"] == 1 << 16


def test_pytorch_192061_graphs_share_no_workspace_with_their_siblings(double):
    double.lib.double_want_workspace(1 << 12)
    x, y = randn(5, 7), randn(7, 6)
    for address in (0x7200, 0x7300):
        with stream(address):
            for capturing in (0, 1, 0):
                double.lib.double_capturing(capturing)
                run(SPEC, x, y)
    at = [p["workspace_at"] for p in double.problems()]
    # Calls outside keep theirs, stream by stream; a captured one has none of them.
    assert at[0] == at[2] != at[3] == at[5]
    assert at[1] != at[0]
    assert at[4] not in (at[0], at[3])


def test_cupy_4676_streams_share_no_workspace(double):
    double.lib.double_want_workspace(1 << 12)
    x, y = randn(5, 7), randn(7, 6)
    for address in (0x7400, 0x7500):
        with stream(address):
            run(SPEC, x, y)
    first, second = (p["workspace_at"] for p in double.problems())
    assert 0 not in (first, second)
    assert first != second


@pytest.mark.parametrize("on", [True, False])
def test_litgpt_2124_deterministic_mode_is_honoured(double, on):
    torch.use_deterministic_algorithms(on)
    try:
        assert Operation(SPEC)(randn(5, 7), randn(7, 6)) is not None
    finally:
        torch.use_deterministic_algorithms(False)
    assert double.last()["reductions"] == (6 if on else 7)


def test_thunder_2697_a_capturing_program_calls_the_library_alone(recorded):
    """After the first call a captured one makes no handle and copies nothing."""
    program, x, w = jit(lambda x, w: x @ w.t()), randn(5, 7), randn(6, 7)
    program(x, w)
    before = [recorded.calls(entry) for entry in ("create", "copy")]
    recorded.lib.double_capturing(1)
    program(x, w)
    recorded.lib.double_capturing(0)
    assert [recorded.calls(entry) for entry in ("create", "copy")] == before
    assert recorded.calls() == 2


def test_cudarc_549_the_algorithm_is_the_same_in_every_call(double):
    """What may be asked for is a constant limit, no matter how much memory there is: the same plan, again and again."""
    double.lib.double_algos(4)
    x, y = randn(5, 7), randn(7, 6)
    ballast = []
    for _ in range(3):
        cublaslt.extension().cache_clear()
        run(SPEC, x, y)
        ballast.append(torch.ones(1 << 22))
    assert len({(p["algo"], p["workspace"]) for p in double.problems()}) == 1


def test_cubek_573_strides_are_part_of_the_key(double):
    """[128, 1] of a row of 128 and of a row of 130: another problem, and another plan."""
    w = randn(128, 6)
    spec = spec_of("m k, k n -> m n", (4, 128), (128, 6))
    for x in (randn(4, 128), randn(4, 130)[:, :128], randn(4, 130)[:, 2:], randn(128, 4).t()):
        status, out = run(spec, x, w)
        assert status == 0
        torch.testing.assert_close(out, x @ w, rtol=1e-4, atol=1e-4)
    assert double.calls("heuristic") >= 3


# 37: aliases ----------------------------------------------------------------------------------------------------------

IN_PLACE = {
    "the base after its view": lambda x, w: (x.add_(1), x @ w.t())[1],
    "the view before the product": lambda x, w: (w.t().mul_(2), x @ w.t())[1],
    "between view and product": lambda x, w: [v := w.t(), w.add_(1), x @ v][2],
    "after the product": lambda x, w: [y := x @ w.t(), w.add_(1), y + w.sum()][2],
    "the product's view": lambda x, w: [y := (x @ w.t()).t(), y.mul_(2), y + 1][2],
}


@pytest.mark.parametrize("fn", IN_PLACE.values(), ids=IN_PLACE)
def test_thunder_2766_writing_to_aliases_beside_a_folded_view(engine, fn):
    x, w = randn(3, 4), randn(5, 4)
    ours, eager = (x.clone(), w.clone()), (x.clone(), w.clone())
    torch.testing.assert_close(jit(fn, gemm_claim="all")(*ours), fn(*eager))
    for a, b in zip(ours, eager):
        torch.testing.assert_close(a, b)


# 38: tensors that are not plain ---------------------------------------------------------------------------------------


def test_pytorch_145158_nested_tensors_are_declined_or_right():
    """gx.gemm refuses them in a sentence; a program runs as Thunder runs it, or is refused as Thunder refuses."""
    nested = torch.nested.nested_tensor([randn(2, 4), randn(3, 4)], layout=torch.jagged)
    with pytest.raises((ValueError, TypeError, RuntimeError, NotImplementedError)):
        gx.gemm(nested, randn(4, 5), "b m k, k n -> b m n")


def test_thunder_2589_a_dtensor_is_declined_with_the_reason():
    from thunder.core.proxies import TensorProxy
    from thunder.core.trace import TraceCtx, tracectx

    from thunder_gemm_ex.graph import Graph
    from thunder_gemm_ex.rules.find import find_matmuls

    class DTensorProxy(TensorProxy):
        pass

    from thunder.core import devices, dtypes, prims

    trace = TraceCtx(None)
    with tracectx(trace):
        a, b = (
            TensorProxy(n, shape=s, device=devices.cpu, dtype=dtypes.float32) for n, s in (("a", (3, 4)), ("b", (4, 5)))
        )
        prims.matmul(a, b)
        (bsym,) = trace.bound_symbols
        odd = DTensorProxy("c", shape=(3, 4), device=devices.cpu, dtype=dtypes.float32)
        trace.bound_symbols = [bsym.from_bsym(args=(odd, b))]
    (row,) = find_matmuls(Graph(trace))
    assert row.reason == "c is a DTensorProxy, not a plain tensor"


def test_thunder_2589_a_plain_tensor_is_not_declined():
    assert decisions(assert_as_eager(lambda x, w: x @ w.t(), randn(3, 4), randn(5, 4))) == ["claimed"]
