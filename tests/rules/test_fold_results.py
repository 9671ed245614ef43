"""Trace in, trace out: views below a matmul fold into its result where nobody else wants the unviewed value."""

import functools

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import VIEWS, all_names, assert_as_eager, backward_names, forward_names, specs
from thunder_gemm_ex.engines import loop

TRANSPOSES = {
    "t": lambda y: y.t(),
    "T": lambda y: y.T,
    "mT": lambda y: y.mT,
    "transpose": lambda y: y.transpose(0, 1),
    "permute": lambda y: y.permute(1, 0),
    "movedim": lambda y: torch.movedim(y, 1, 0),
}


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("view", TRANSPOSES.values(), ids=TRANSPOSES)
def test_a_transposed_result_folds_between_two_matmuls(view, grad):
    x, w, v = (torch.randn(s, requires_grad=grad) for s in [(3, 4), (4, 5), (3, 6)])
    jfn = assert_as_eager(lambda x, w, v: view(x @ w) @ v, x, w, v)
    assert (
        forward_names(jfn) == ["gemm", "gemm"]
        or forward_names(jfn) == ["gemm", "matmul"]
        or forward_names(jfn) == ["matmul", "gemm"]
    )
    assert not set(all_names(jfn)) & VIEWS


def test_dw_of_a_transposed_weight_is_one_contiguous_gemm():
    x, w = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    jfn = assert_as_eager(lambda x, w: x @ w.t(), x, w)
    assert backward_names(jfn) == ["gemm", "gemm"]
    jfn(x, w).sum().backward()
    assert w.grad.is_contiguous()
    assert x.grad.is_contiguous()


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 5, 4), (1, 3, 4), (3, 1, 4)])
def test_the_reshapes_of_an_nd_matmul_under_autograd_fold(shape):
    x, w = torch.randn(shape, requires_grad=True), torch.randn(4, 6, requires_grad=True)
    jfn = assert_as_eager(lambda x, w: x @ w, x, w)
    assert forward_names(jfn) == ["gemm"]
    assert not set(all_names(jfn)) & VIEWS


def test_attention_output_back_to_heads_last_folds():
    def f(p, v):
        return (p @ v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(2, 5, 12)

    jfn = assert_as_eager(f, torch.randn(2, 3, 5, 5), torch.randn(2, 5, 3, 4))
    assert forward_names(jfn) == ["gemm"]
    assert specs(jfn) == ["b h m k, b k h n -> b m (h n)"]


def test_a_result_under_a_cat_may_be_written_transposed():
    """cat makes new strides, so no output shows them."""
    jfn = assert_as_eager(lambda x, w: torch.cat([(x @ w).t(), (x @ w).t() + 1]), torch.randn(3, 4), torch.randn(4, 5))
    assert forward_names(jfn) == ["gemm", "add", "cat"]


# Under a cat ----------------------------------------------------------------------------------------------------------


def keys_then_cat(q, s, rest, join=torch.cat):
    """As the gradient of k in a fused projection: [b, h, d, t] seen as [b, t, (h d)] without a copy, then joined."""
    k = q.permute(0, 2, 3, 1) @ s
    return join([k.permute(0, 3, 1, 2).reshape(2, 7, 12), rest], dim=0)


def keys_operands():
    return torch.randn(2, 5, 3, 4), torch.randn(2, 3, 5, 7), torch.randn(2, 7, 12)


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_views_that_copy_nothing_stay_where_a_cat_copies_anyway(join):
    jfn = assert_as_eager(functools.partial(keys_then_cat, join=join), *keys_operands())
    assert specs(jfn) == ["b k h m, b h k n -> b h m n"]
    assert set(forward_names(jfn)) >= {"permute", "reshape"}
    (row,) = (row for row in gx.explain(jfn).rows if row.decision == "claimed")
    assert f"permute below stays: {join.__name__} copies what it gives anyway" in row.reason


def test_a_result_folds_under_a_cat_where_its_views_would_copy():
    def f(p, v, rest):
        return torch.cat([(p @ v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(2, 5, 12), rest], 2)

    jfn = assert_as_eager(f, torch.randn(2, 3, 5, 5), torch.randn(2, 5, 3, 4), torch.randn(2, 5, 12))
    assert forward_names(jfn) == ["gemm", "cat"]


def test_a_result_folds_under_a_cat_where_the_engine_writes_it_in_place(monkeypatch):
    monkeypatch.setattr(loop, "LEAST_FLOPS", 1)
    jfn = assert_as_eager(keys_then_cat, *keys_operands())
    assert forward_names(jfn) == ["gemm", "cat"]


def test_a_result_folds_where_something_else_reads_it_beside_the_cat():
    def f(q, s, rest):
        k = (q.permute(0, 2, 3, 1) @ s).permute(0, 3, 1, 2).reshape(2, 7, 12)
        return torch.cat([k, rest], dim=2), k @ rest.mT

    jfn = assert_as_eager(f, *keys_operands())
    assert forward_names(jfn) == ["gemm", "cat", "gemm"]


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
@pytest.mark.parametrize(("shape", "order"), [((1, 3, 5, 7), (0, 3, 1, 2)), ((1, 2, 3, 5, 7), (0, 4, 1, 2, 3))])
def test_the_memory_format_that_a_cat_takes_from_results_is_eagers(join, shape, order):
    """Results seen channels first join to a channels_last tensor: one in any other order would not."""
    x, y, w = torch.randn(shape), torch.randn(shape), torch.randn(7, 6)
    assert_as_eager(lambda x, y, w: join([(x @ w).permute(order), (y @ w).permute(order)]), x, y, w)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 129, 130)])
def test_the_memory_format_that_a_stack_makes_of_three_dimensions_is_eagers(shape):
    """[a, b, c] with b innermost is channels_last beside a new dimension in front of c; torch keeps it if it is large."""

    def f(x, w):
        y = (x @ w).mT
        return torch.stack([y, y], dim=2)

    assert_as_eager(f, torch.randn(shape), torch.randn(shape[-1], 65))


# Does not -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", TRANSPOSES.values(), ids=TRANSPOSES)
def test_a_transposed_result_that_is_returned_stays_a_view(view):
    jfn = assert_as_eager(lambda x, w: view(x @ w), torch.randn(3, 4), torch.randn(4, 5))
    assert jfn(torch.randn(3, 4), torch.randn(4, 5)).stride() == (1, 5)
    assert "gemm" not in forward_names(jfn)


def test_a_transposed_result_whose_strides_reach_an_output_through_pointwise_work_stays_a_view():
    assert_as_eager(lambda x, w: torch.relu((x @ w).t() * 2), torch.randn(3, 4), torch.randn(4, 5))


def test_a_result_that_others_want_unviewed_does_not_fold():
    def f(x, w):
        y = x @ w
        return y.sum(), y.t() @ y

    jfn = assert_as_eager(f, torch.randn(3, 4), torch.randn(4, 5))
    assert forward_names(jfn).count("matmul") == 1
    assert forward_names(jfn).count("gemm") == 1


def test_a_backward_view_is_not_folded_into_a_forward_matmul():
    """y is only used transposed, by the wgrad: the forward must still make y for its own output."""
    x, w, v = (torch.randn(s, requires_grad=True) for s in [(3, 4), (4, 5), (5, 6)])
    jfn = assert_as_eager(lambda x, w, v: (x @ w) @ v, x, w, v)
    assert forward_names(jfn) == ["matmul", "matmul"]


def test_one_batched_call_is_not_made_two_to_save_the_copy_of_a_result():
    """With v stored heads first, (b, h) is one batch; written heads last it would be a loop over b."""

    def f(p, v):
        return (p @ v).permute(0, 2, 1, 3).reshape(2, 5, 12)

    jfn = assert_as_eager(f, torch.randn(2, 3, 5, 5), torch.randn(2, 3, 5, 4))
    assert forward_names(jfn)[0] == "matmul"


def test_to_heads_is_not_folded_into_a_projection():
    """One GEMM would become many: [b, s, (h d)] -> [b, h, s, d] stays a free view."""

    def f(x, w, k):
        q = (x @ w).reshape(2, 5, 3, 4).permute(0, 2, 1, 3)
        return q @ k

    jfn = assert_as_eager(f, torch.randn(2, 5, 6), torch.randn(6, 12), torch.randn(2, 3, 4, 7))
    assert specs(jfn) == ["a b k, k (n u:4) -> a b n u", "b m h k, b h k n -> b h m n"]
