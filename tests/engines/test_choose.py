"""Dispatch: what is decided once, for what, and that other operands never get another's decision."""

import pytest
import torch

from thunder_gemm_ex.engines import choose, sites, told
from thunder_gemm_ex.engines.terms import Terms
from thunder_gemm_ex.spec import SpecError


@pytest.fixture
def fresh(monkeypatch):
    """No sites from other tests."""
    monkeypatch.setattr(choose, "_sites", {})
    monkeypatch.setattr(choose, "_plain_sites", {})
    monkeypatch.setattr(choose, "_direct_calls", {})
    monkeypatch.setattr(choose, "checked_calls", {})


@pytest.mark.usefixtures("fresh")
def test_a_direct_site_keeps_no_signatures():
    for m in (2, 3, 4):
        choose.run_gemm(torch.randn(m, 5), torch.randn(7, 5), "m k, n k -> m n")
    assert not choose.site("m k, n k -> m n").decisions


@pytest.mark.usefixtures("fresh")
def test_one_decision_a_signature():
    text = "a b m, a b n -> n m"
    for _ in range(3):
        choose.run_gemm(torch.randn(2, 3, 4), torch.randn(2, 3, 5), text)
    choose.run_gemm(torch.randn(3, 2, 4).transpose(0, 1), torch.randn(2, 3, 5), text)
    assert len(choose.site(text).decisions) == 2


@pytest.mark.usefixtures("fresh")
def test_the_number_of_signatures_is_bounded(monkeypatch):
    monkeypatch.setattr(sites, "MAX_SIGNATURES", 4)
    text = "a b m, a b n -> n m"
    for m in range(2, 12):
        a, b = torch.randn(2, 3, m), torch.randn(2, 3, 5)
        torch.testing.assert_close(choose.run_gemm(a, b, text), b.flatten(0, 1).t() @ a.flatten(0, 1))
    assert len(choose.site(text).decisions) <= 4


@pytest.mark.usefixtures("fresh")
def test_same_shape_and_strides_in_another_dtype_is_another_signature():
    text = "a b m, a b n -> n m"
    for dtype in (torch.float32, torch.float64):
        assert choose.run_gemm(torch.randn(2, 3, 4).to(dtype), torch.randn(2, 3, 5).to(dtype), text).dtype == dtype
    assert len(choose.site(text).decisions) == 2


@pytest.mark.usefixtures("fresh")
def test_terms_have_sites_of_their_own():
    a, b, bias = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)
    plain = choose.run_gemm(a, b, "m k, n k -> m n")
    biased = choose.run_gemm(a, b, "m k, n k, n -> m n", bias)
    scaled = choose.run_gemm(a, b, "m k, n k -> m n", None, 2.0)
    torch.testing.assert_close(biased, plain + bias)
    torch.testing.assert_close(scaled, plain * 2)
    assert choose.site("m k, n k -> m n") is not choose.site("m k, n k -> m n", Terms(alpha=True))


def test_a_decision_says_what_it_does():
    decision = choose.site("a b m, a b n -> n m").decision_for(torch.randn(2, 3, 4), torch.randn(2, 3, 5))
    assert decision.engine == "aten"
    assert decision.detail == "mm(b.reshape(6, 5).t(), a.reshape(6, 4))"


def test_a_fake_tensor_goes_to_aten():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        a, b = torch.empty(2, 3, 4, device="cuda"), torch.empty(2, 3, 5, device="cuda")
        out = choose.run_gemm(a, b, "a b m, a b n -> n m")
    assert tuple(out.shape) == (5, 4)
    assert out.device.type == "cuda"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("text", ["m k, n k, n -> m n", "m k, n k, m n -> m n", "a b m, a b n, n -> n m"])
def test_a_spec_that_labels_a_bias_is_never_computed_without_one(text, monkeypatch):
    """It once registered a call that ignores the bias, for every later call of that text."""
    monkeypatch.setattr(choose, "_direct_calls", {})
    monkeypatch.setattr(choose, "checked_calls", {})
    with pytest.raises(SpecError, match=r"bias is None, and the spec .* labels one"):
        choose.site(text)
    with pytest.raises(SpecError, match="bias is None"):
        choose.run_gemm(torch.ones(2, 3), torch.ones(4, 3), text)
    assert not choose._direct_calls
    assert not choose.checked_calls
    assert choose.site(text, Terms(bias=True)).terms.bias


@pytest.mark.usefixtures("fresh")
def test_sizes_that_the_bias_alone_tells_are_part_of_the_signature():
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    for split in ((2, 3), (3, 2)):
        bias = torch.randn(*split, 5)
        out = choose.run_gemm(a, b, "(a b) k, k n, a b n -> a b n", bias)
        torch.testing.assert_close(out, (a @ b).reshape(*split, 5) + bias)
    runs = told.runs_of("(a b) k, k n, a b n -> a b n", (6, 4), (4, 5), scaled=False, scaled_bias=False)
    assert len(runs) == 2
