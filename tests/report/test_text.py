"""The report as text: 80 columns and plain in a pipe, coloured on a terminal."""

import io
import sys

import pytest
import thunder
import torch
from rich.console import Console

import thunder_gemm_ex as gx
from tests.checks import jit
from thunder_gemm_ex.report import Report, Row, Run
from thunder_gemm_ex.report.words import headline, run_lines, size


def attention(q, k, v):
    s = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(-1, -2)) * 0.125
    return torch.matmul(torch.softmax(s, -1), v.transpose(1, 2)).transpose(1, 2).reshape(2, 7, 12)


@pytest.fixture(scope="module")
def report():
    jfn = jit(attention)
    jfn(*(torch.randn(2, 7, 3, 4) for _ in range(3)))
    return gx.explain(jfn)


def test_in_a_pipe_it_is_plain_and_80_columns_wide(report):
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in str(report)


def test_on_a_terminal_it_is_coloured(report, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    text = str(report)
    assert "\x1b[32mclaimed" in text.replace("\x1b[0m", "")


def test_rich_prints_it_by_itself(report):
    out = io.StringIO()
    Console(file=out, width=100).print(report)
    assert "b m h k, b n h k -> b h m n" in out.getvalue()


def test_operations_and_views_are_counted_before_and_after(report):
    assert str(report).splitlines()[-1] == "attention: operations 10 -> 3, of them views 6 -> 0"


def test_fused_regions_are_counted_before_and_after():
    """K=1 between two pointwise operations: one region where there were two, and the views that fed the matmul."""
    from thunder.executors.torch_compile import torch_compile_ex

    def rope(inv_freq, position):
        return ((inv_freq * 2)[:, None] @ position[None, :].float()).cos()

    jfn = thunder.jit(rope, executors=[gx.gemm_ex, torch_compile_ex, *thunder.get_always_executors()])
    jfn(torch.randn(4), torch.arange(6))
    (program,) = gx.explain(jfn).programs
    counts = program.counts()
    assert counts["regions"]["after"] <= counts["regions"]["before"]
    assert counts["operations"]["after"] == 1


def test_a_program_without_matmuls_is_not_counted():
    jfn = jit(lambda x: x + 1)
    jfn(torch.randn(3))
    assert "operations" not in str(gx.explain(jfn))


def test_a_fuser_that_cannot_run_again_costs_only_the_counts(report, monkeypatch):
    def broken(self, trace):
        raise RuntimeError("no second time")

    monkeypatch.setattr(type(report.programs[0]), "_fused", broken)
    fresh = Report(report.rows, (), tuple(type(p)(*vars(p).values()) for p in [_bare(report.programs[0])]))
    text = str(fresh)
    assert "operations were not counted (RuntimeError: no second time)" in text
    assert "claimed" in text
    assert "no second time" not in fresh.html().partition("<h2>")[2]


def _bare(program):
    """The program without what it has worked out so far."""
    import copy
    import dataclasses

    bare = copy.copy(program)
    for name in set(vars(bare)) - {field.name for field in dataclasses.fields(bare)}:
        del bare.__dict__[name]
    return bare


ROW = Row("bmm", "a.py:3", "claimed", "m k, k n -> m n", "NN", "folded x", "aten")


def test_a_batch_of_one_is_left_out_of_the_sizes():
    sizes = {"batch": 1, "m": 2, "n": 3, "k": 4}
    assert headline(Row(**(vars(ROW) | {"sizes": sizes}))) == "m k, k n -> m n  (NN, m 2 n 3 k 4)"
    assert "batch 8" in headline(Row(**(vars(ROW) | {"sizes": sizes | {"batch": 8}})))


def test_a_row_before_its_first_call_says_so():
    assert list(run_lines(ROW)) == ["aten: not called yet"]


def test_loops_copies_and_reasons_are_told():
    run = Run("aten", "bmm(a, b)", 3, {"a": 2048}, "a dimension has size 0", (1,), (1,))
    lines = list(run_lines(Row(**(vars(ROW) | {"runs": (run,), "bytes_saved": 512}))))
    assert lines == [
        "aten: bmm(a, b), 3 calls, copies a (2 KiB)",
        "not cublaslt: a dimension has size 0",
        "saves copies of 512 B",
    ]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1.02e+03 B"), (1536, "1.5 KiB"), (3 << 30, "3 GiB"), (5 << 50, "5.12e+03 TiB")],
)
def test_sizes_are_for_people(amount, text):
    assert size(amount) == text
