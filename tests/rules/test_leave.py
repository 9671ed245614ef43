"""A matmul that a fuser would take into a region with what computes beside it is left to the fuser."""

import pytest
import thunder
import torch
from thunder.executors.torch_compile import torch_compile_cat_ex, torch_compile_ex

import thunder_gemm_ex as gx

X, W = torch.randn(6, 4), torch.randn(5, 4)


def rows(fn, *inputs, fuser=torch_compile_ex, **options):
    jfn = thunder.jit(fn, executors=[gx.gemm_ex, fuser, *thunder.get_always_executors()], **options)
    torch.testing.assert_close(jfn(*inputs), fn(*inputs))
    return gx.explain(jfn).rows


BESIDE = {
    "before": lambda x, w: torch.relu(x) @ w.t(),
    "after": lambda x, w: torch.relu(x @ w.t()),
    "before, behind views": lambda x, w: torch.relu(x).reshape(2, 3, 4).transpose(0, 1) @ w.t(),
    "after, behind views": lambda x, w: torch.relu((x @ w.t()).reshape(2, 3, 5).transpose(0, 1)),
}


@pytest.mark.parametrize("fn", BESIDE.values(), ids=BESIDE)
def test_with_a_pointwise_neighbour_it_is_left(fn):
    (row,) = rows(fn, X, W)
    assert (row.decision, row.engine) == ("given back", "thunder")
    assert row.reason == "torchcompile takes it into a region with its neighbours, views included"


ALONE = {
    "views only": lambda x, w: x @ w.t(),
    "another matmul": lambda x, w: (x @ w.t()) @ w,
}


@pytest.mark.parametrize("fn", ALONE.values(), ids=ALONE)
def test_with_nothing_to_compute_beside_it_it_is_claimed(fn):
    assert rows(fn, X, W)[0].decision == "claimed"


@pytest.mark.parametrize("fn", BESIDE.values(), ids=BESIDE)
def test_a_fuser_that_takes_no_matmuls_gets_none(fn):
    (row,) = rows(fn, X, W, fuser=torch_compile_cat_ex)
    assert row.decision == "claimed"


def test_nothing_summed_is_a_multiply_in_the_region():
    (row,) = rows(lambda x, p: (x[:, None] @ p[None]).cos(), torch.randn(4), torch.randn(6))
    assert row.decision == "multiply"


def test_with_small_off_that_is_left_too():
    (row,) = rows(lambda x, p: (x[:, None] @ p[None]).cos(), torch.randn(4), torch.randn(6), gemm_small="off")
    assert row.decision == "given back"


def test_claim_all_takes_it_all_the_same():
    (row,) = rows(BESIDE["before"], X, W, gemm_claim="all")
    assert row.decision == "claimed"
