"""Rows and traces name the line that the user wrote: through modules, through Dynamo's graphs, and in gradients."""

import inspect

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx
from torch import nn

import thunder_gemm_ex as gx
from tests.checks import jit


class Model(nn.Module):
    """Matmuls in a module of torch's, in a nested one, and in operators."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 6)
        self.net = nn.Sequential(nn.ReLU(), nn.Linear(6, 4))
        self.w = nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        """[n, 8] -> [n, 5]"""
        y = self.up(x)
        y = self.net(y)
        return torch.relu(y) @ self.w.t()


def line_of(text):
    lines, first = inspect.getsourcelines(Model)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


EXPECTED = [line_of("self.up(x)"), line_of("self.net(y)"), line_of("self.w.t()")]


@pytest.fixture(scope="module")
def through():
    def compiled(way):
        torch.manual_seed(0)
        fn = {"jit": thunder.jit, "thunderfx": thunderfx}[way](Model(), executors=gx.executors())
        fn(torch.randn(3, 8, requires_grad=True)).sum().backward()
        return fn

    return compiled


@pytest.mark.parametrize("way", ["jit", "thunderfx"])
def test_a_module_of_torchs_is_placed_where_the_user_calls_it(through, way):
    rows = gx.explain(through(way)).rows
    assert [row.where for row in rows if not row.backward] == EXPECTED


@pytest.mark.parametrize("way", ["jit", "thunderfx"])
def test_gradients_are_placed_at_their_forward_line(through, way):
    rows = gx.explain(through(way)).rows
    assert sorted({row.where for row in rows if row.backward}) == sorted(EXPECTED)


def test_a_trace_shows_the_users_line(through):
    text = str(thunder.last_traces(through("jit"))[-1])
    assert f"# {line_of('self.up(x)')}" in text
    assert "linear.py" not in text


def test_a_line_of_a_graph_that_nobody_knows_stays_as_it_is():
    from thunder_gemm_ex.report.places import in_users_file

    assert in_users_file("<eval_with_key>.999:5", (nn.Linear(2, 2),)) == "<eval_with_key>.999:5"


def test_torchs_own_function_has_no_line_of_the_users():
    jfn = jit(torch.nn.Linear(3, 4))
    jfn(torch.randn(2, 3))
    assert "linear.py:" in gx.explain(jfn).rows[0].where
