"""The benchmark harness: what it refuses to time, what it records. No assertion on times."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.comparison import EAGER, OURS
from benchmarks.intervals import ratio_interval
from benchmarks.machine import machine
from benchmarks.results import Results
from tests.bench.trifles import comparison


def test_a_result_that_is_not_eagers_is_not_timed():
    result = comparison(lambda x: [x * 3]).measure(3, lambda: None)
    assert result["check"] == {"ok": False, "tolerance": 1e-5, "errors": {"other": 0.0, OURS: 0.5}}
    assert "times_as_fast_as" not in result


def test_ratios_and_targets():
    advanced = []
    result = comparison(lambda x: [x + x], targets={"other": 0.0}).measure(3, lambda: advanced.append(1))
    assert len(advanced) == result["rounds"] == 3
    assert set(result["median_microseconds"]) == {EAGER, "other", OURS}
    ratios = result["times_as_fast_as"]
    assert set(ratios) == {EAGER, "other"}
    assert ratios["other"]["met"] is True
    assert ratios[EAGER]["low"] <= ratios[EAGER]["median"] <= ratios[EAGER]["high"]


@pytest.mark.parametrize("ratios", [[2.0], [2.0] * 9, [1.0, 2.0, 3.0]])
def test_interval_of_a_median(ratios):
    median, low, high = ratio_interval(ratios)
    assert median == 2.0
    assert min(ratios) <= low <= median <= high <= max(ratios)


def test_the_interval_narrows_with_more_rounds():
    def width(count):
        _, low, high = ratio_interval(torch.randn(count).tolist())
        return high - low

    assert width(400) < width(20)


def test_the_machine_is_described_without_its_name():
    import platform

    found = machine()
    assert found["torch_threads"] == torch.get_num_threads()
    assert found["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert platform.node() not in json.dumps(found).split('"')


def test_a_roofline_has_a_point_for_each_result_that_tells_its_work():
    from benchmarks.plot import roofline

    told = {"flops": 2e9, "bytes": 1e6, "median_microseconds": {OURS: 100.0}}
    figure = roofline([told, {"name": "x"}])
    assert len(figure.axes[0].collections[0].get_offsets()) == 1
    assert roofline([{"name": "x"}]) is None


@pytest.mark.parametrize("name", ["attention", "shapes"])
def test_what_a_suite_compares_is_eagers(name, monkeypatch):
    """The first comparison of each, at trifling sizes and without torch.compile, which takes its time."""
    import importlib

    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(torch, "compile", lambda program, **_: program)
    for attribute, value in {"B": 1, "S": 6, "H": 4, "D": 8, "SHRUNK": 512}.items():
        monkeypatch.setattr(module, attribute, value, raising=False)
    first = next(iter(module.suite("cpu")))
    del first.candidates["gemm_ex + torchcompile" if name == "attention" else "torch.compile"]
    first.candidates.pop("Thunder + torchcompile", None)
    assert first.check()["ok"]


def test_the_floor_of_a_shape_needs_no_transpose():
    from benchmarks import shapes

    found = [shapes._comparison("x", layout, 4, 5, 6, "cpu", torch.float32) for layout in ("NN", "NT", "TN", "TT")]
    for layout in found:
        torch.testing.assert_close(layout.candidates[shapes.FLOOR](), layout.candidates[EAGER]())


def test_the_readmes_figures_are_those_of_the_committed_results():
    from benchmarks.markdown import HEAD, table

    root = Path(__file__).parents[2]
    found = Results.read(root / "benchmarks" / "results" / "cpu-2-threads.json")
    shown = [line for line in (root / "README.md").read_text().splitlines() if " to " in line and line.endswith(") |")]
    assert shown
    assert set(shown) <= set(table(found).splitlines())
    assert HEAD[0] in (root / "README.md").read_text()
