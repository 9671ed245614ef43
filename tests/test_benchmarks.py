"""The benchmark harness: what it refuses to time, what it records. No assertion on times."""

import functools
import json

import pytest
import torch

from benchmarks import run as runner
from benchmarks.comparison import EAGER, OURS, Comparison
from benchmarks.intervals import ratio_interval
from benchmarks.machine import machine


def comparison(ours, **options):
    x = torch.ones(3)
    candidates = {EAGER: lambda: [x * 2], "other": lambda: [x + x], OURS: functools.partial(ours, x)}
    return Comparison("double", "[3]", candidates, **options)


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


def test_an_unknown_suite_is_named():
    with pytest.raises(SystemExit, match="no suite is called paint; there are rope, programs, overhead"):
        runner.run_suites(["paint"])


def test_a_suite_from_end_to_end(monkeypatch, tmp_path, capsys):
    from benchmarks import overhead

    monkeypatch.setattr(overhead, "suite", lambda device: [comparison(lambda x: [x * 2], targets={EAGER: 1e9})])
    out = tmp_path / "result.json"
    assert runner.main(["overhead", "--rounds", "2", "--device", "cpu", "--out", str(out)]) == 0
    (result,) = json.loads(out.read_text())["suites"]["overhead"]
    assert result["name"] == "double"
    assert "MISSED" in capsys.readouterr().out
