"""The benchmark harness: what it refuses to time, what it records. No assertion on times."""

import dataclasses
import functools
import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import run as runner
from benchmarks.comparison import EAGER, OURS, Comparison
from benchmarks.intervals import ratio_interval
from benchmarks.machine import machine
from benchmarks.results import Results, against


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


@pytest.fixture
def one_suite(monkeypatch):
    """The suite "overhead" is one comparison of trifles, which counts how often it is made."""
    from benchmarks import overhead

    made = []

    def suite(device):
        for name in ("double", "twice"):
            made.append(name)
            yield dataclasses.replace(comparison(lambda x: [x * 2], targets={EAGER: 1e9}), name=name)

    monkeypatch.setattr(overhead, "suite", suite)
    return made


def test_groups_and_suites_are_run_once_each():
    assert runner.suites_of(["overhead", "cpu"]) == ["overhead", "rope", "attention", "programs"]
    assert runner.suites_of([]) == list(runner.SUITES)


def test_an_unknown_suite_is_named():
    with pytest.raises(ValueError, match="no suite is called paint; there are rope, attention, programs"):
        runner.run_suites(["paint"])


def bench(capsys, *argv):
    status = runner.main([*map(str, argv), "--rounds", "2", "--device", "cpu"])
    return status, capsys.readouterr().out


@pytest.mark.usefixtures("one_suite")
def test_a_suite_from_end_to_end(tmp_path, capsys):
    out = tmp_path / "result.json"
    status, text = bench(capsys, "--suite", "overhead", "--json", out)
    assert status == 0
    assert [r["name"] for r in json.loads(out.read_text())["suites"]["overhead"]] == ["double", "twice"]
    assert "MISSED" in text


@pytest.mark.usefixtures("one_suite")
def test_json_without_a_file_is_printed(capsys):
    status, text = bench(capsys, "overhead", "--json")
    assert status == 0
    assert json.loads(text)["complete"] is True


@pytest.mark.usefixtures("one_suite")
def test_a_filter_keeps_what_has_it_in_its_name(capsys):
    _, text = bench(capsys, "overhead", "--filter", "TWI", "--json")
    assert [r["name"] for r in json.loads(text)["suites"]["overhead"]] == ["twice"]


@pytest.mark.usefixtures("one_suite")
def test_a_filter_that_keeps_nothing_is_said(capsys):
    status, text = bench(capsys, "overhead", "--filter", "thrice")
    assert status == 1
    assert "no comparison has 'thrice' in its name" in text


def test_a_run_that_is_cut_keeps_what_was_measured(one_suite, tmp_path, capsys, monkeypatch):
    def measure(self, rounds, advance):
        if self.name == "twice":
            raise KeyboardInterrupt
        return whole(self, rounds, advance)

    whole = Comparison.measure
    monkeypatch.setattr(Comparison, "measure", measure)
    out = tmp_path / "result.json"
    status, text = bench(capsys, "overhead", "--json", out)
    assert status == 1
    assert [r["name"] for r in json.loads(out.read_text())["suites"]["overhead"]] == ["double"]
    assert "Cut off before the end" in text


def results(low, high, name="double"):
    ratio = {"median": (low + high) / 2, "low": low, "high": high}
    result = {"name": name, "check": {"ok": True}, "times_as_fast_as": {EAGER: ratio}}
    return Results("cpu", {}, {"overhead": [result]})


@pytest.mark.parametrize(
    ("now", "word"), [((1.2, 1.3), "better"), ((0.7, 0.8), "worse"), ((1.05, 1.3), "same"), ((0.8, 1.2), "same")]
)
def test_a_baseline_is_compared_by_the_intervals(now, word):
    assert against(results(*now), results(0.9, 1.1)) == [("double", EAGER, word)]


def test_what_a_baseline_lacks_is_new():
    assert against(results(1, 1, "other"), results(1, 1)) == [("other", EAGER, "new")]


@pytest.mark.usefixtures("one_suite")
def test_a_baseline_is_shown_beside_the_ratios(tmp_path, capsys):
    out = tmp_path / "result.json"
    bench(capsys, "overhead", "--json", out)
    _, text = bench(capsys, "overhead", "--baseline", out)
    assert {"same", "better", "worse"} & set(text.split())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"suites": 3}'])
@pytest.mark.usefixtures("one_suite")
def test_a_file_that_is_no_baseline_is_refused_before_anything_runs(tmp_path, capsys, content, one_suite):
    path = tmp_path / "baseline.json"
    path.write_text(content)
    status, text = bench(capsys, "overhead", "--baseline", path)
    assert status == 1
    assert "is not a file of results" in " ".join(text.split())
    assert one_suite == []


@pytest.mark.usefixtures("one_suite")
def test_a_page_has_a_chart_and_needs_nothing_else(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert bench(capsys, "overhead", "--html", page)[0] == 0
    text = page.read_text()
    assert "<svg" in text
    assert "b m h k, b n h k" in text
    assert not re.search(r"(src|href)=.https?:|@import", text)


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
    for comparison in found:
        torch.testing.assert_close(comparison.candidates[shapes.FLOOR](), comparison.candidates[EAGER]())


def stage(name, code, seconds=30):
    from benchmarks.gpu_pack import Stage

    return Stage(name, seconds, (sys.executable, "-c", code, "{out}"))


def test_the_pack_writes_as_it_goes_and_says_how_each_stage_ended(tmp_path):
    from benchmarks import gpu_pack

    todo = [
        stage("good", "import sys; open(sys.argv[1] + '/good.json', 'w').write('{}'); print('said')"),
        stage("bad", "raise SystemExit(3)"),
        stage("slow", "print('begun', flush=True); import time; time.sleep(60)", seconds=3),
        stage("last", ""),
    ]
    assert gpu_pack.run(todo, tmp_path, dict(os.environ)) == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [item["ended"] for item in summary] == ["well", "with status 3", "cut off", "well"]
    assert (tmp_path / "good.txt").read_text() == "said\n"
    assert (tmp_path / "slow.txt").read_text() == "begun\n"
    assert (tmp_path / "good.json").exists()


def test_the_pack_ends_in_its_time(tmp_path, monkeypatch):
    from benchmarks import gpu_pack

    monkeypatch.setattr(gpu_pack, "TOTAL", 4)
    assert gpu_pack.run([stage("first", "")], tmp_path, dict(os.environ)) == 1
    (item,) = json.loads((tmp_path / "summary.json").read_text())
    assert item["ended"] == "no time was left"


@pytest.mark.parametrize("rehearse", [False, True])
def test_the_stages_of_the_pack_fit_its_time(rehearse):
    from benchmarks import gpu_pack

    found = gpu_pack.stages(rehearse)
    assert sum(stage.seconds for stage in found) <= gpu_pack.TOTAL
    assert [stage.name for stage in found][:2] == ["doctor", "tests"]


def test_a_rehearsal_names_no_gpu():
    from benchmarks import gpu_pack

    assert all("cuda" not in word for stage in gpu_pack.stages(True) for word in stage.command)


def test_the_readmes_figures_are_those_of_the_committed_results():
    from benchmarks.markdown import HEAD, table

    root = Path(__file__).parents[1]
    found = Results.read(root / "benchmarks" / "results" / "cpu-2-threads.json")
    shown = [line for line in (root / "README.md").read_text().splitlines() if " to " in line and line.endswith(") |")]
    assert shown
    assert set(shown) <= set(table(found).splitlines())
    assert HEAD[0] in (root / "README.md").read_text()
