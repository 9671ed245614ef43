"""gx.explain: a row for every matmul, with the user's line, the decision and a reason."""

import json
import warnings

import pytest
import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from tests.checks import jit


def three_kinds(x, w, p):
    y = x @ w.t()
    z = y @ p
    return z, y.sum(-1, keepdim=True).reshape(3, 1) @ torch.ones(1, 6)


def compiled():
    jfn = jit(three_kinds)
    jfn(torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 6))
    return jfn


def test_every_matmul_has_a_row_with_a_decision():
    assert [row.decision for row in gx.explain(compiled()).rows] == ["claimed", "given back", "multiply"]


def test_a_matmul_that_cannot_be_stated_has_a_row_that_says_so():
    jfn = jit(torch.mm)
    args = [torch.randn(s, dtype=torch.complex64) for s in ((3, 4), (4, 5))]
    torch.testing.assert_close(jfn(*args), torch.mm(*args))
    (row,) = gx.explain(jfn).rows
    assert (row.op, row.decision) == ("mm", "declined")
    assert "complex" in row.reason


def test_rows_say_where_in_the_users_file():
    first = three_kinds.__code__.co_firstlineno
    places = [row.where for row in gx.explain(compiled()).rows]
    assert places == [f"{__file__}:{first + i}" for i in (1, 2, 3)]


def test_gradients_are_placed_at_their_forward_matmul():
    jfn = jit(lambda x, w: x @ w.t())
    jfn(torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)).sum().backward()
    rows = gx.explain(jfn).rows
    assert [row.backward for row in rows] == [False, True, True]
    assert len({row.where for row in rows}) == 1
    assert rows[0].where.startswith(__file__)


def test_rows_name_spec_layout_engine_and_reason():
    claimed, back, multiply = gx.explain(compiled()).rows
    assert (claimed.op, claimed.spec, claimed.layout, claimed.engine) == ("matmul", "m k, n k -> m n", "NT", "aten")
    assert "permute of b" in claimed.reason
    assert back.engine == "thunder"
    assert "nothing to fold" in back.reason
    assert multiply.engine == "pointwise"
    assert "K=1" in multiply.reason


def test_a_fold_that_does_not_pay_is_explained_with_its_cost():
    jfn = jit(lambda x, w: (x @ w).reshape(2, 5, 3, 4).permute(0, 2, 1, 3) * 1)
    jfn(torch.randn(2, 5, 6), torch.randn(6, 12))
    (row,) = gx.explain(jfn).rows
    assert "permute below stays" in row.reason


def test_bytes_of_copies_not_made_are_counted():
    """Grouped-query attention: k repeated for the heads of its group, [2, 6, 7, 5] in float32, is never made."""

    def f(q, k):
        return q @ k[:, :, None].expand(2, 2, 3, 7, 5).reshape(2, 6, 7, 5).transpose(-1, -2)

    jfn = jit(f)
    jfn(torch.randn(2, 6, 4, 5), torch.randn(2, 2, 7, 5))
    (row,) = gx.explain(jfn).rows
    assert row.bytes_saved == 2 * 6 * 7 * 5 * 4


def test_a_report_prints_in_plain_text_and_as_data():
    report = gx.explain(compiled())
    text = str(report)
    for word in ("claimed", "given back", "multiply", "m k, n k -> m n", "test_explain.py:"):
        assert word in text
    assert "\x1b" not in text
    data = json.loads(json.dumps(report.to_dict()))
    assert data["version"] == 1
    assert [r["decision"] for r in data["rows"]] == ["claimed", "given back", "multiply"]


def test_the_specialisation_that_was_called_last_is_explained():
    jfn = jit(torch.matmul)
    jfn(torch.randn(3, 1), torch.randn(1, 4))
    jfn(torch.randn(3, 2), torch.randn(2, 4))
    assert [r.decision for r in gx.explain(jfn).rows] == ["given back"]
    jfn(torch.randn(3, 1), torch.randn(1, 4))
    assert [r.decision for r in gx.explain(jfn).rows] == ["multiply"]


def test_a_program_without_matmuls_has_no_rows():
    jfn = jit(lambda x: x + 1)
    jfn(torch.randn(3))
    assert gx.explain(jfn).rows == ()


@pytest.mark.parametrize("fn", [None, 3, torch.matmul, three_kinds])
def test_what_thunder_did_not_compile_is_refused(fn):
    with pytest.raises(ValueError, match="fn must be a function compiled by"):
        gx.explain(fn)


def test_a_function_never_called_is_refused():
    with pytest.raises(ValueError, match="not been called"):
        gx.explain(jit(three_kinds))


def test_a_function_compiled_without_the_executor_is_refused():
    jfn = thunder.jit(torch.matmul)
    jfn(torch.randn(3, 2), torch.randn(2, 4))
    with pytest.raises(ValueError, match="without gemm_ex"):
        gx.explain(jfn)


def test_listed_after_a_fuser_it_warns_once_and_notes_it(monkeypatch):
    monkeypatch.setattr(gx.gemm_ex, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            jfn = thunder.jit(three_kinds, executors=[torch_compile_ex, gx.gemm_ex])
            jfn(torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 6))
    ours = [w for w in caught if "gemm_ex" in str(w.message)]
    assert len(ours) == 1
    assert "list gemm_ex first" in str(ours[0].message)
    assert any("listed after torchcompile" in note for note in gx.explain(jfn).notes)


def test_listed_first_it_does_not_warn(monkeypatch):
    monkeypatch.setattr(gx.gemm_ex, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled()
    assert not [w for w in caught if "gemm_ex" in str(w.message)]


def test_the_report_of_a_function_goes_with_it():
    import gc

    from thunder_gemm_ex.report.record import records

    before = len(records)
    jfn = compiled()
    assert len(records) == before + 1
    del jfn
    gc.collect()
    assert len(records) == before
