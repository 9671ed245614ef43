"""What rows tell of the calls that were made: engine, expression or plan, loops, copies."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import jit
from thunder_gemm_ex.engines import choose


@pytest.fixture(autouse=True)
def nothing_decided_before():
    """Decisions are the process's: other tests' calls of the same specs would be rows here too."""
    choose.forget()


def scores(q, k):
    return torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(-1, -2)) * 0.5


def rows_after(fn, *operands):
    jfn = jit(fn)
    jfn(*operands)
    return gx.explain(jfn).rows


def test_one_call_of_torch_is_shown():
    (row,) = rows_after(lambda x, w: x @ w.t(), torch.randn(3, 4), torch.randn(5, 4))
    (run,) = row.runs
    assert (run.engine, run.call, run.calls, run.copies) == ("aten", "linear(a, b)", 1, {})


def test_copies_of_small_operands_are_shown_in_bytes():
    (row,) = rows_after(scores, torch.randn(2, 7, 3, 4), torch.randn(2, 5, 3, 4))
    (run,) = row.runs
    assert run.calls == 1
    assert run.copies == {"a": 2 * 7 * 3 * 4 * 4, "b": 2 * 5 * 3 * 4 * 4}
    assert (run.a_strides, run.b_strides) == ((84, 12, 4, 1), (60, 12, 4, 1))


def test_a_loop_is_shown_with_its_calls_and_without_copies():
    (row,) = rows_after(scores, torch.randn(2, 128, 8, 64), torch.randn(2, 128, 8, 64))
    (run,) = row.runs
    assert (run.calls, run.copies) == (2, {})
    assert run.call.startswith("looped(")


def test_each_combination_of_strides_has_its_own():
    jfn = jit(scores)
    first, second = torch.randn(2, 7, 3, 4), torch.randn(2, 3, 7, 4).transpose(1, 2)
    for q in (first, second):
        jfn(q, torch.randn(2, 5, 3, 4))
    (row,) = gx.explain(jfn).rows
    strides = {run.a_strides: sorted(run.copies) for run in row.runs}
    assert strides == {first.stride(): ["a", "b"], second.stride(): ["b"]}


def test_calls_of_other_shapes_are_not_shown():
    """Two programs with one spec: each shows its own calls."""
    (small,) = rows_after(scores, torch.randn(2, 7, 3, 4), torch.randn(2, 5, 3, 4))
    (large,) = rows_after(scores, torch.randn(2, 9, 3, 4), torch.randn(2, 5, 3, 4))
    assert small.spec == large.spec
    assert [run.copies["a"] for run in large.runs] == [2 * 9 * 3 * 4 * 4]


def test_a_factor_separates_calls_of_one_spec():
    def unscaled(q, k):
        return torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(-1, -2))

    operands = torch.randn(2, 7, 3, 4), torch.randn(2, 5, 3, 4)
    (row,), _ = rows_after(scores, *operands), rows_after(unscaled, *operands)
    assert all("alpha=alpha" in run.call for run in row.runs)


def test_what_thunder_computes_has_no_runs():
    (row,) = rows_after(torch.matmul, torch.randn(3, 4), torch.randn(4, 5))
    assert (row.decision, row.runs) == ("given back", ())


@pytest.mark.usefixtures("double")
def test_the_plan_of_the_library_is_shown():
    jfn = jit(lambda x, w: torch.relu(x) @ w.t())
    with choose.everywhere():
        jfn(torch.randn(3, 4), torch.randn(5, 4))
        (row,) = gx.explain(jfn).rows
    (run,) = row.runs
    assert (run.engine, run.calls, run.reason) == ("cublaslt", 1, "")
    plan, _, algorithm = run.call.partition(", algorithm ")
    assert plan == "NT, 1 call(s) of batch 1, rows 5 cols 3 k 4"
    assert algorithm == "0 (tile 20 stages 11 split-k 2), as the heuristic offers"


@pytest.mark.usefixtures("double")
def test_why_the_library_was_passed_over_is_shown():
    jfn = jit(lambda x, w: torch.relu(x) @ w.t())
    with choose.everywhere():
        jfn(torch.randn(0, 4), torch.randn(5, 4))
        (row,) = gx.explain(jfn).rows
    (run,) = row.runs
    assert run.engine == "aten"
    assert "size 0" in run.reason
