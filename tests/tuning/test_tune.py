"""`tune` on the double, whose algorithms can be slow, wrong, or write where they should not."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import jit
from tests.tuning.conftest import aligned
from thunder_gemm_ex.engines import choose, cublaslt, recording
from thunder_gemm_ex.tuning.store import ATEN, Store, default_path
from thunder_gemm_ex.tuning.tune import apply_stored, forget_tuned

SPEC = "m k, n k -> n m"


@pytest.fixture
def xw():
    return aligned(torch.randn(24, 32)), aligned(torch.randn(16, 32))


def product(x, w):
    return choose.run_gemm(x, w, SPEC)


def rank_now(double, xw):
    """The rank, in the heuristic's list, of the algorithm that a call runs now; None where ATen does."""
    before = double.calls()
    product(*xw)
    return double.last()["rank"] if double.calls() > before else None


def with_aten_at(monkeypatch, microseconds):
    """ATen's time as given, on a machine whose own speed is anything: which algorithm wins is then no question of it."""
    from thunder_gemm_ex.tuning import measure

    timed = measure.Clock.medians
    monkeypatch.setattr(
        measure.Clock, "medians", lambda self, runs, rounds: timed(self, runs, rounds) | {ATEN: microseconds}
    )


@pytest.fixture
def no_aten(monkeypatch):
    """ATen is never the fastest."""
    with_aten_at(monkeypatch, 1e9)


def test_a_slow_first_choice_is_replaced(everywhere, xw, no_aten):
    everywhere.lib.double_algos(4)
    everywhere.lib.double_slow_algo(0)
    assert rank_now(everywhere, xw) == 0
    report = gx.tune(product, *xw, rounds=3, progress=False)
    (row,) = report.rows
    assert row.candidates == 4
    assert row.heuristic_microseconds > 4000 > row.microseconds
    assert rank_now(everywhere, xw) in (1, 2, 3)
    torch.testing.assert_close(product(*xw), xw[1] @ xw[0].t())


def test_the_report_says_who_chose_the_algorithm(everywhere, no_aten):
    everywhere.lib.double_algos(4)
    everywhere.lib.double_slow_algo(0)
    program = jit(lambda x, w: x @ w.t(), gemm_claim="all")
    args = aligned(torch.randn(24, 32)), aligned(torch.randn(16, 32))

    def said():
        program(*args)
        (run,) = gx.explain(program).rows[0].runs
        return run.call.partition("algorithm ")[2]

    numbers = "(tile 20 stages 11 split-k 2)"
    assert said() == f"0 {numbers}, as the heuristic offers"
    gx.tune(program, *args, rounds=3, progress=False)
    assert said() in [f"{rank} {numbers}, tuned" for rank in (1, 2, 3)]


def test_an_algorithm_that_is_no_better_is_not_taken(everywhere, xw, no_aten, monkeypatch):
    from thunder_gemm_ex.tuning import measure

    everywhere.lib.double_algos(3)
    monkeypatch.setattr(measure.Clock, "time", lambda self, run: (run(), 10.0)[1])
    (row,) = gx.tune(product, *xw, rounds=2, progress=False).rows
    assert row.microseconds == row.heuristic_microseconds
    assert rank_now(everywhere, xw) == 0


@pytest.mark.parametrize(
    ("fault", "said"), [("wrong_algo", "differs from ATen by"), ("overrunning_algo", "wrote outside of the output")]
)
def test_an_algorithm_that_is_wrong_is_never_taken(everywhere, xw, no_aten, fault, said):
    everywhere.lib.double_algos(2)
    everywhere.lib.double_slow_algo(0)
    getattr(everywhere.lib, f"double_{fault}")(1)
    (row,) = gx.tune(product, *xw, rounds=2, progress=False).rows
    assert len(row.faults) == 1
    assert said in row.faults[0]
    assert rank_now(everywhere, xw) == 0
    assert said in str(gx.tune(product, *xw, rounds=2, progress=False))


def test_where_aten_is_faster_aten_is_called(everywhere, xw, monkeypatch):
    with_aten_at(monkeypatch, 0.001)
    (row,) = gx.tune(product, *xw, rounds=2, progress=False).rows
    assert row.algo == ATEN
    assert rank_now(everywhere, xw) is None
    assert "ATen was faster" in choose.site(SPEC).decision_for(*xw).reason
    forget_tuned()
    assert rank_now(everywhere, xw) == 0


def test_the_choice_is_kept_for_later_processes(everywhere, xw, no_aten):
    everywhere.lib.double_algos(2)
    everywhere.lib.double_slow_algo(0)
    assert gx.tune(product, *xw, rounds=2, progress=False).stored
    forget_tuned()
    assert rank_now(everywhere, xw) == 0
    assert apply_stored() == 1
    assert rank_now(everywhere, xw) == 1


def test_a_kept_algorithm_that_the_library_refuses_is_not_run(everywhere, xw, no_aten):
    """Each is checked against the very problem: here the check fails, and the heuristic is asked."""
    everywhere.lib.double_algos(2)
    everywhere.lib.double_slow_algo(0)
    gx.tune(product, *xw, rounds=2, progress=False)
    cublaslt.extension().tuned_apply()
    choose.forget()
    everywhere.fail_next("check", 15)
    assert rank_now(everywhere, xw) == 0


def test_another_librarys_choice_is_another_key(everywhere, xw, no_aten):
    gx.tune(product, *xw, rounds=2, progress=False)
    (key,) = Store().read("host")
    version = int.from_bytes(bytes.fromhex(key[:16]), "little")
    assert version == cublaslt.status()["version"]


def test_nothing_is_kept_when_asked_not_to(everywhere, xw):
    assert not gx.tune(product, *xw, rounds=1, store=False, progress=False).stored
    assert not default_path().exists()


def test_nothing_is_timed_while_a_graph_is_captured(everywhere, xw):
    everywhere.lib.double_capturing(1)
    with pytest.raises(RuntimeError, match="a CUDA graph is being captured"):
        gx.tune(product, *xw, progress=False)
    assert everywhere.calls() == 0


def test_every_distinct_problem_is_tuned_once(everywhere):
    def program():
        for _ in range(3):
            for m in (8, 16):
                product(aligned(torch.randn(m, 32)), aligned(torch.randn(16, 32)))

    assert len(gx.tune(program, rounds=1, progress=False).rows) == 2


def test_terms_are_tuned_with_the_product(everywhere):
    a, b, bias = torch.randn(8, 32), torch.randn(16, 32), torch.randn(16)

    def program():
        gx.gemm(a, b, "m k, n k -> m n", bias=bias, alpha=0.5)
        gx.gemm(a, b, "m k, n k -> m n", c=torch.ones(8, 16), beta=2)

    report = gx.tune(program, rounds=1, progress=False)
    assert len(report.rows) == 2
    assert not any(row.faults for row in report.rows)


def test_a_compiled_program_is_tuned_through_its_trace(everywhere):
    import thunder

    jfn = thunder.jit(lambda x, w: torch.matmul(x, torch.permute(w, (1, 0))), executors=gx.executors())
    assert len(gx.tune(jfn, torch.randn(8, 32), torch.randn(16, 32), rounds=1, progress=False).rows) == 1


def test_a_program_that_fails_leaves_nothing_recording(everywhere, xw):
    def program():
        product(*xw)
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        gx.tune(program, progress=False)
    assert not recording.active
    assert rank_now(everywhere, xw) == 0


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"candidates": 0}])
def test_counts_below_one_are_refused(everywhere, bad):
    with pytest.raises(ValueError, match="must be at least 1"):
        gx.tune(lambda: None, **bad)


def test_batch_invariant_products_are_left_out(everywhere, xw):
    """The algorithm that is best for one number of rows may not be taken for it alone."""
    report = gx.tune(
        lambda x, w: choose.run_gemm(x, w, SPEC, numerics="batch_invariant"), *xw, rounds=1, progress=False
    )
    assert report.rows == ()
    assert "batch_invariant" in report.skipped[0]


def test_strict_products_are_tuned_beside_torchs(everywhere, xw, no_aten):
    """Their flags are part of the plan's key: what is tuned for one mode is not used in another."""
    everywhere.lib.double_algos(4)
    everywhere.lib.double_slow_algo(0)
    strict = lambda x, w: choose.run_gemm(x, w, SPEC, numerics="strict")  # noqa: E731
    (row,) = gx.tune(strict, *xw, rounds=3, progress=False).rows
    assert row.candidates == 4
    strict(*xw)
    assert everywhere.last()["rank"] in (1, 2, 3)
    assert rank_now(everywhere, xw) == 0
