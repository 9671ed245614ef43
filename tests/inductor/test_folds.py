"""What the pass folds and what it does not, one behaviour each: graph in, graph out."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.inductor.graphs import count_views, folded, specs, targets, traced
from thunder_gemm_ex.inductor import inductor_pass


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float64)


X, W, B = rand(2, 3, 4), rand(5, 4), rand(5)


@pytest.mark.parametrize(
    ("function", "args", "spec"),
    [
        (lambda x, w: x[0].mm(w.t()), (X, W), "m k, n k -> m n"),
        (lambda x, w: x @ w.t(), (X, W), "a b k, n k -> a b n"),
        (lambda x, w, b: torch.nn.functional.linear(x, w, b), (X, W, B), "a b k, n k, n -> a b n"),
        (lambda x, y: torch.bmm(x, y.transpose(1, 2)), (X, rand(2, 5, 4)), "b m k, b n k -> b m n"),
        (lambda x, y: torch.bmm(x.permute(1, 0, 2), y), (X, rand(3, 4, 5)), "m b k, b k n -> b m n"),
        (lambda x, y: x.squeeze(0).mm(y.unsqueeze(1)), (rand(1, 3, 4), rand(4)), "1 m k, k -> m 1"),
        (lambda x, y: torch.bmm(x, y.expand(2, 4, 5)), (X, rand(4, 5)), "a b k, k n -> a b n"),
        (lambda x, w: x[0].mm(w.t()).reshape(3, 5, 1), (X, W), "m k, n k -> m n 1"),
        # A copy in another order is what a product writes at no cost.
        (lambda x, w: w.mm(x[0].t()).t().contiguous(), (X, W), "m k, n k -> n m"),
        (lambda x, w: x[0].t().contiguous().mm(w.t()), (X, rand(5, 3)), "k m, n k -> m n"),
    ],
)
def test_folds(function, args, spec):
    graph = folded(function, *args)
    assert specs(graph) == [spec]
    assert count_views(graph) < count_views(traced(function, *args).graph)
    assert not {"mm", "bmm", "addmm", "baddbmm"} & set(targets(graph))


@pytest.mark.parametrize("beta", [0, 1, 2])
@pytest.mark.parametrize("added", [(5,), (3, 5), (1, 5)], ids=str)
def test_addmm_keeps_its_terms(added, beta):
    def function(c, x, w):
        return torch.addmm(c, x, w.t(), beta=beta, alpha=0.5)

    graph = folded(function, rand(*added), rand(3, 4), W)
    assert len(specs(graph)) == 1
    assert "addmm" not in targets(graph)


@pytest.mark.parametrize("beta", [0, 1, 2])
def test_baddbmm_keeps_its_terms(beta):
    def function(c, x, y):
        return torch.baddbmm(c, x, y.mT, beta=beta, alpha=0.5)

    graph = folded(function, rand(2, 3, 5), X, rand(2, 5, 4))
    assert specs(graph) == ["b m k, b n k -> b m n"]


def test_nan_in_what_beta_zero_ignores_stays_ignored():
    def function(c, x, w):
        return torch.addmm(c, x, w.t(), beta=0)

    graph = folded(function, torch.full((3, 5), torch.nan, dtype=torch.float64), rand(3, 4), W)
    assert len(specs(graph)) == 1


def test_of_an_operand_used_twice_both_products_read_the_source():
    graph = folded(lambda x, w: (x @ w.t(), x.sin() @ w.t()), X, W)
    assert specs(graph) == ["a b k, n k -> a b n"] * 2
    assert "t" not in targets(graph)


def refusals(function, *args, **kwargs):
    """The operations left in a graph in which nothing must have been folded."""
    graph = folded(function, *args, **kwargs)
    assert specs(graph) == []
    return targets(graph)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        # Nothing beside it.
        (lambda x, w: x.mm(w), (rand(3, 4), rand(4, 5))),
        # The program returns the view, with its strides.
        (lambda x, w: x.mm(w).t(), (rand(3, 4), rand(4, 5))),
        # The unviewed value has another user.
        (lambda x, w: _two(x.mm(w)), (rand(3, 4), rand(4, 5))),
        # Slices are free views, not labels.
        (lambda x, w: x[:, ::2].mm(w), (rand(3, 8), rand(4, 5))),
        # A pointwise operation takes its strides from the view.
        (lambda x, w: x.mm(w).t() + 1, (rand(3, 4), rand(4, 5))),
        # An uneven split: no label says it.
        (lambda x, w: x.reshape(6, 4).mm(w), (rand(8, 3), rand(4, 5))),
        # Integers and mixed results are torch's own affair.
        (lambda x, w: x.mm(w.t()), (torch.ones(3, 4, dtype=torch.int64), torch.ones(5, 4, dtype=torch.int64))),
        (
            lambda x, w: x.conj().mm(w),
            (torch.ones(3, 4, dtype=torch.complex64), torch.ones(4, 5, dtype=torch.complex64)),
        ),
        # A summed label that the operand does not have: a product by a number is no contraction.
        (lambda x, w: x.expand(3, 4).mm(w), (rand(3, 1), rand(4, 5))),
    ],
)
def test_does_not_fold(function, args):
    assert {"mm", "bmm"} & set(refusals(function, *args))


def _two(y):
    return y, y.reshape(-1)


def test_does_not_fold_a_copy_that_makes_one_call_of_many():
    def function(x, y):
        heads = x.permute(0, 2, 1, 3).reshape(6, 5, 4)
        return torch.bmm(heads, y)

    graph = folded(function, rand(2, 5, 3, 4), rand(6, 4, 7))
    assert "clone" in targets(graph)


def test_does_not_fold_a_split_of_what_is_summed():
    # "b h s d" joined to k = (h d): read as stored, k would not be one dimension.
    graph = folded(lambda x, w: x.permute(0, 2, 1, 3).reshape(10, 12).mm(w.t()), rand(2, 3, 5, 4), rand(7, 12))
    assert "clone" in targets(graph)


def test_does_not_fold_symbolic_sizes():
    assert "mm" in refusals(lambda x, w: x.mm(w.t()), rand(3, 4), rand(5, 4), symbolic=True)


def test_does_not_fold_what_is_written_to_in_between():
    def function(x, w):
        view = w.t()
        w.add_(1)
        return x.mm(view)

    module = traced(lambda x, w: function(x, w.clone()), rand(3, 4), W)
    inductor_pass(module.graph)
    assert specs(module.graph) == []


def test_does_not_fold_the_result_under_another_c():
    def function(c, x, w):
        return torch.addmm(c, x, w, beta=2).t().contiguous()

    assert "addmm" in refusals(function, rand(3, 5), rand(3, 4), rand(4, 5))


def test_every_decision_is_logged(caplog):
    with caplog.at_level("DEBUG", logger="thunder_gemm_ex.inductor"):
        folded(lambda x, w: x.mm(w.t()).t(), rand(3, 4), W)
    assert "m k, n k -> m n: folded permute of b" in caplog.text
    assert "permute below stays: its strides are not those that a product writes" in caplog.text


def test_the_pass_has_a_key_for_inductors_cache():
    assert inductor_pass.uuid() == inductor_pass.uuid()
    assert isinstance(inductor_pass.uuid(), bytes)


def test_the_package_offers_the_pass():
    assert gx.inductor_pass is inductor_pass
