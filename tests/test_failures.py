"""An error of our own never reaches the user: the program is as Thunder made it, with one warning and a row."""

import warnings

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, decisions, jit
from thunder_gemm_ex import executor

RULES = [
    "Graph",
    "find_matmuls",
    "find_scaled",
    "decline_unpromised",
    "leave_to_fusers",
    "fold_results",
    "fold_operands",
]
RULES += ["take_operand_factors", "take_activations", "take_derivatives", "take_bias_gradients", "mark_multiplies"]
RULES += ["mark_small", "say_why", "give_back", "keep_slices", "emit"]


def program(x, w, v):
    return (x * 2.0) @ w.t() + v @ v.t()


def inputs(grad):
    return [torch.randn(s, requires_grad=grad) for s in ((3, 4), (3, 4), (3, 1))]


def broken(name):
    def rule(graph, *args, **options):
        # As far gone as may be: the graph is no longer what it was.
        for matmul in getattr(graph, "matmuls", {}).values():
            matmul.spec = None
        raise KeyError("t0")

    rule.__name__ = name
    return rule


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", RULES)
def test_a_failing_rule_leaves_the_program_to_thunder(monkeypatch, name, grad):
    monkeypatch.delenv(executor.RAISE)

    monkeypatch.setattr(executor, name, broken(name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jfn = jit(program)
        args = inputs(grad)
        out = jfn(*args)
    told = [str(w.message) for w in caught if "gemm_ex" in str(w.message)]
    assert len(told) == 1
    assert f"{name} failed with KeyError: 't0'" in told[0]
    torch.testing.assert_close(out, program(*args))
    if grad:
        for ours, eager in zip(torch.autograd.grad(out.sum(), args), torch.autograd.grad(program(*args).sum(), args)):
            torch.testing.assert_close(ours, eager)
    (row,) = gx.explain(jfn).rows
    assert (row.decision, row.engine) == ("declined", "thunder")
    assert name in row.reason
    assert "gemm" not in all_names(jfn)


@pytest.mark.parametrize("name", RULES)
def test_it_raises_where_that_is_asked_for(monkeypatch, name):
    monkeypatch.setattr(executor, name, broken(name))
    with pytest.raises(KeyError, match="t0"):
        jit(program)(*inputs(False))


def test_the_next_program_is_whole_again(monkeypatch):
    monkeypatch.delenv(executor.RAISE)
    with monkeypatch.context() as patch:
        patch.setattr(executor, "fold_operands", broken("fold_operands"))
        with pytest.warns(UserWarning, match="fold_operands"):
            jit(program)(*inputs(False))
    assert "claimed" in decisions(assert_as_eager(program, *inputs(True)))


def test_the_callers_mistakes_are_no_failures_of_ours(monkeypatch):
    """An option that there is not, and operands that cannot multiply, are errors with and without the variable."""
    monkeypatch.delenv(executor.RAISE)
    with pytest.raises(ValueError, match="gemm_claim must be one of"):
        jit(program, gemm_claim="some")(*inputs(False))
    with pytest.raises(RuntimeError):
        jit(torch.matmul)(torch.randn(3, 4), torch.randn(5, 6))


def test_all_rules_are_broken_here():
    """What the pass runs is what these tests break."""
    ran = set()
    run = executor.Progress.run

    class Noting(executor.Progress):
        def run(self, rule, *args, **options):
            ran.add(rule.__name__)
            return run(self, rule, *args, **options)

    original, executor.Progress = executor.Progress, Noting
    try:
        thunder.jit(program, executors=gx.executors())(*inputs(True))
    finally:
        executor.Progress = original
    assert ran == {*RULES, "record"}
