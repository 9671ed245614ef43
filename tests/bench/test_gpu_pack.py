"""The GPU pack: it writes as it goes, ends in its time, and a rehearsal needs no GPU."""

import json
import os
import sys

import pytest


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
