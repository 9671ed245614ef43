"""`bench`: suites, filters, files, baselines, pages, and a run that is cut off."""

import dataclasses
import json
import re

import pytest

from benchmarks import run as runner
from benchmarks.comparison import EAGER, Comparison
from benchmarks.results import Results, against
from tests.bench.trifles import comparison


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
    assert runner.suites_of(["overhead", "cpu"])[:3] == ["overhead", "rope", "attention"]
    assert len(set(runner.suites_of(["overhead", "cpu"]))) == len(runner.GROUPS["cpu"])
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


@pytest.mark.usefixtures("one_suite")
@pytest.mark.parametrize("where", ["making", "measuring"])
def test_a_comparison_that_fails_is_shown_and_others_go_on(tmp_path, capsys, monkeypatch, where):
    from benchmarks import rope

    def suite(device):
        if where == "making":
            raise RuntimeError("out of memory")
        yield Comparison("rotary", "", {EAGER: lambda: 1 / 0}, {})

    monkeypatch.setattr(rope, "suite", suite)
    out = tmp_path / "result.json"
    status, text = bench(capsys, "rope", "overhead", "--json", out)
    assert status == 1
    found = json.loads(out.read_text())["suites"]
    assert [r["check"]["ok"] for r in found["rope"]] == [False]
    assert [r["check"]["ok"] for r in found["overhead"]] == [True, True]
    assert "out of memory" in text or "ZeroDivisionError" in text


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
