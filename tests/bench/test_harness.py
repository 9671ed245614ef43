"""The benchmark harness: what it refuses to time, what it records. No assertion on times."""

import dataclasses
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
    assert result["check"] == {"ok": False, "tolerance": 1e-5, "errors": {"other": 0.0, OURS: 0.5}, "failed": {}}
    assert "times_as_fast_as" not in result


def test_a_peer_that_cannot_run_is_left_out_and_says_why():
    def refuses():
        raise RuntimeError("no device\nof that kind")

    made = comparison(lambda x: [x * 2])
    result = dataclasses.replace(made, candidates=made.candidates | {"peer": refuses}).measure(2, lambda: None)
    assert result["check"]["ok"] is True
    assert result["check"]["failed"] == {"peer": "RuntimeError: no device"}
    assert set(result["times_as_fast_as"]) == {EAGER, "other"}


def test_what_a_peer_said_names_no_folder_of_this_machine():
    from benchmarks.comparison import said

    error = RuntimeError('in <code at 0x7f9e>, file "/some/where-1/lib.d/helper.py", line 3')
    assert said(error) == 'RuntimeError: in <code at 0x...>, file "helper.py", line 3'


def test_where_ours_cannot_run_the_check_fails():
    def refuses(x):
        raise RuntimeError("no")

    result = comparison(refuses).measure(2, lambda: None)
    assert result["check"]["ok"] is False
    assert result["check"]["failed"] == {OURS: "RuntimeError: no"}


def test_a_target_is_met_by_the_lower_end_of_the_interval():
    made = comparison(lambda x: [x * 2], targets={"other": 1.5})
    took = [{EAGER: 1.0, "other": ratio, OURS: 1.0} for ratio in (1.0, 2.0, 2.0)]
    found = made.ratios(took)["times_as_fast_as"]["other"]
    assert (found["median"], found["low"], found["met"]) == (2.0, 1.0, False)
    assert made.ratios(took[1:])["times_as_fast_as"]["other"]["met"] is True


def test_cold_rounds_time_every_candidate_alone():
    from benchmarks.cold import CALLS, cold_rounds
    from thunder_gemm_ex.tuning.measure import Clock

    called = []
    found = list(cold_rounds({n: lambda n=n: called.append(n) for n in "ab"}, 2, Clock(torch.device("cpu"))))
    assert [len(set(called[i : i + CALLS])) for i in range(0, len(called), CALLS)] == [1] * 4
    assert called.count("a") == called.count("b") == 2 * CALLS
    assert [list(took) for took in found] == [["a", "b"], ["a", "b"]]


def test_memory_is_counted_without_an_interval():
    from benchmarks.memory import Counted, saved
    from benchmarks.results import figures_of, ratios_of

    x = torch.randn(4, 5, requires_grad=True)
    result = Counted("square", lambda x: x @ x.t(), (x,), saved).measure(None, lambda: None)
    assert result["bytes_used"] == dict.fromkeys((EAGER, "Thunder", OURS), 4 * 5 * 4)
    assert ratios_of(result)["Thunder"] == {"median": 1.0, "low": 1.0, "high": 1.0, "target": 1.0, "met": True}
    assert figures_of(result)[OURS] == "80 bytes"


@pytest.mark.parametrize(("others", "ours", "ratio"), [(3, 2, 1.5), (0, 0, 1.0), (0, 2, 0.0), (2, 0, float("inf"))])
def test_ratios_of_counts(others, ours, ratio):
    from benchmarks.memory import ratios

    assert ratios({"Thunder": others, OURS: ours})["Thunder"]["median"] == ratio


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


@pytest.mark.parametrize("name", ["attention", "shapes", "blocks", "epilogues"])
def test_what_a_suite_compares_is_eagers(name, monkeypatch):
    """The first comparison of each, at trifling sizes and without torch.compile, which takes its time."""
    import importlib

    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(torch, "compile", lambda program, **_: program)
    sizes = {"B": 1, "S": 6, "H": 4, "D": 8, "SHRUNK": 512, "SIZES": {"cpu": (32, 4, 2, 5, 2)}}
    if name == "epilogues":
        sizes |= {"SIZES": ((2048, 1024, 1024),)}
    if name == "blocks":
        # No embedding: the lab's nvFuser asks for the version of a library that is not loaded without a GPU.
        sizes |= {"NAMES": {"Llama": "LlamaBlock"}}
    for attribute, value in sizes.items():
        monkeypatch.setattr(module, attribute, value, raising=False)
    first = next(iter(module.suite("cpu")))
    for way in ("gemm_ex + torchcompile", "Thunder + torchcompile", "torch.compile"):
        first.candidates.pop(way, None)
    check = first.check()
    assert (check["ok"], check["failed"]) == (True, {})
    assert OURS in check["errors"]


def test_what_is_measured_of_algorithms_is_eagers(monkeypatch):
    """Over the double of cublasLt."""
    from benchmarks import algorithms

    monkeypatch.setattr(algorithms, "SHRUNK", 512)
    made = algorithms.suite("cpu")  # kept: where it ends, the double is gone
    check = next(made).check()
    assert (check["ok"], check["failed"]) == (True, {})
    assert set(check["errors"]) == {algorithms.HEURISTIC, algorithms.BEST, OURS}


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


def test_the_readmes_pictures_are_drawn_from_the_committed_results():
    from PIL import Image

    from benchmarks.plot import DRAWN_FROM, PICTURES, RESULTS, ROOT, digest

    known = Results.read(ROOT / RESULTS).suites
    for picture, suites in PICTURES.items():
        found = [comparison for suite in suites for comparison in known[suite]]
        assert found
        assert Image.open(ROOT / picture).info[DRAWN_FROM] == digest(found), (
            f"python -m benchmarks.plot draws {picture}"
        )
        assert str(picture) in (ROOT / "README.md").read_text() + (ROOT / "benchmarks" / "README.md").read_text()
