"""Slices, chunks, splits and selections stay views that reach the GEMM by their strides; the views around them fold."""

import functools

import pytest
import torch

import thunder_gemm_ex as gx
from tests.lab import final_traces, names, needs_nvfuser
from tests.rules.together import Line, outcomes

DOES = {
    "slice": Line("x @ w[1:4].t()", {"x": (3, 4), "w": (6, 4)}),
    "slice of columns": Line("x[:, 2:6] @ w.t()", {"x": (3, 8), "w": (6, 4)}),
    "chunk": Line("(lambda p: p[0] @ p[1].t())(x.chunk(2, -1))", {"x": (3, 8)}),
    "split": Line("(lambda p: p[0] @ p[1].t())(x.split([4, 4], -1))", {"x": (3, 8)}),
    "select": Line("x[0] @ w[1].t()", {"x": (2, 3, 4), "w": (2, 6, 4)}),
    "torch.select": Line("torch.select(x, 0, 1) @ w.t()", {"x": (2, 3, 4), "w": (6, 4)}),
    "narrow": Line("x.narrow(1, 2, 4) @ w.t()", {"x": (3, 8), "w": (6, 4)}),
    "fused projections": Line(
        "(lambda q: q[0].reshape(2, 5, 2, 3).transpose(1, 2) @ q[1].reshape(2, 5, 2, 3).permute(0, 2, 3, 1))"
        "(x.split(6, -1))",
        {"x": (2, 5, 12)},
    ),
}


@functools.lru_cache(None)
def found(grad):
    """What became of every line."""
    return outcomes(DOES, grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("what", DOES)
def test_the_transpose_folds_and_the_slice_stays_a_view(what, grad):
    outcome = found(grad)[what]
    first = next(row for row in outcome.rows if not row.backward)
    assert first.decision == "claimed"
    if not grad:
        assert not {"transpose", "permute", "t"} & set(outcome.names)


CUDA = {"x": (3, 8), "w": (6, 4)}


@needs_nvfuser
def test_a_fuser_does_not_write_out_a_slice_that_matmuls_alone_read():
    def f(x, w):
        return torch.relu(x)[:, 2:6] * 2, x[:, 2:6] @ w.t()

    forward, _ = final_traces(
        f, lambda device: tuple(torch.randn(s, device=device) for s in CUDA.values()), executors=gx.executors()
    )
    assert "__getitem__" in names(forward)


# Does not -------------------------------------------------------------------------------------------------------------


@needs_nvfuser
def test_a_slice_that_pointwise_work_reads_is_the_fusers():
    def f(x, w):
        y = x[:, 2:6]
        return y * 2 + 1, y @ w.t()

    forward, _ = final_traces(
        f, lambda device: tuple(torch.randn(s, device=device) for s in CUDA.values()), executors=gx.executors()
    )
    assert "__getitem__" not in names(forward)
