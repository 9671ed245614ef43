"""The ways to add the executor: a list, Thunder's defaults, a plugin, ThunderFX."""

import threading
from pathlib import Path

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx
from thunder.extend import FusionExecutor

import thunder_gemm_ex as gx


@pytest.fixture(autouse=True)
def defaults():
    """Thunder's defaults are the same behind each test."""
    before = list(thunder.get_default_executors())
    yield before
    thunder.extend.set_default_executors(before)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)
        self.w = torch.nn.Parameter(torch.randn(5, 7))

    def forward(self, x):
        """[n, 6] -> [n, 7]"""
        return torch.relu(self.linear(x)) @ self.w


def claimed(jfn):
    return any(row.decision == "claimed" for row in gx.explain(jfn).rows)


def test_enabled_it_is_first_and_there_once(defaults):
    gx.enable()
    gx.enable()
    assert list(thunder.get_default_executors()) == [gx.gemm_ex, *(ex for ex in defaults if ex != gx.gemm_ex)]


def test_disabled_the_defaults_are_as_before(defaults):
    gx.enable()
    gx.disable()
    gx.disable()
    assert list(thunder.get_default_executors()) == defaults


def test_enabled_for_a_block():
    with gx.enable():
        assert gx.gemm_ex in thunder.get_default_executors()
    assert gx.gemm_ex not in thunder.get_default_executors()


def test_a_block_within_leaves_it_enabled():
    gx.enable()
    with gx.enable():
        pass
    assert gx.gemm_ex in thunder.get_default_executors()


def test_a_block_that_fails_ends_it_too():
    with pytest.raises(KeyError), gx.enable():
        raise KeyError
    assert gx.gemm_ex not in thunder.get_default_executors()


def test_threads_that_enable_at_once_leave_it_there_once():
    start = threading.Barrier(8)

    def enable():
        start.wait()
        for _ in range(50):
            gx.enable()

    threads = [threading.Thread(target=enable) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert thunder.get_default_executors().count(gx.gemm_ex) == 1


def test_what_is_compiled_while_enabled_keeps_it():
    with gx.enable():
        jfn = thunder.jit(lambda x, w: x @ w.t())
    jfn(torch.randn(3, 4), torch.randn(5, 4))
    assert claimed(jfn)


@pytest.mark.parametrize("plugin", ["gemm_ex", ["gemm_ex"]])
def test_the_plugin_puts_it_first(plugin):
    model, x = Model(), torch.randn(3, 6)
    compiled = thunder.compile(model, plugins=plugin)
    fusers = [ex for ex in compiled._lc_cd.executors_list if isinstance(ex, FusionExecutor)]
    assert fusers[0] == gx.gemm_ex
    torch.testing.assert_close(compiled(x), model(x))
    assert {row.decision for row in gx.explain(compiled).rows} <= {"claimed", "given back"}


def test_the_plugin_trains():
    model, x = Model(), torch.randn(3, 6)
    compiled = thunder.compile(model, plugins="gemm_ex")
    compiled(x).sum().backward()
    assert claimed(compiled)


def test_without_the_plugin_it_is_not_there():
    compiled = thunder.compile(Model())
    assert gx.gemm_ex not in compiled._lc_cd.executors_list


def test_thunderfx_takes_the_list():
    fn = thunderfx(lambda x, w: x @ w.t(), executors=gx.executors())
    fn(torch.randn(3, 4), torch.randn(5, 4))
    assert claimed(fn)


def test_thunder_loads_nothing_by_entry_points():
    """When it does, this package registers itself there: until then `enable` and the plugin are the ways in."""
    sources = Path(thunder.__file__).parent.rglob("*.py")
    assert not [path.name for path in sources if "entry_points" in path.read_text()]
