"""The file of tuned choices: what is in it survives everything, and what is wrong with it is said."""

import json
import multiprocessing
import os
import warnings

import pytest

from thunder_gemm_ex.tuning.store import ATEN, Choice, Store, default_path

ALGO = "0f" * 64
A, B = Choice(ALGO, 1.5, 3.0), Choice(ATEN, 2.0, 2.0)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "tuned.json")


def test_what_was_added_is_read(store):
    assert store.read("gpu") == {}
    assert store.add("gpu", {"k1": A})
    assert store.add("gpu", {"k2": B})
    assert store.read("gpu") == {"k1": A, "k2": B}
    assert json.loads(store.path.read_text())["format"] == 1


def test_a_later_choice_wins_and_others_stay(store):
    store.add("gpu", {"k1": A, "k2": A})
    store.add("gpu", {"k1": B})
    assert store.read("gpu") == {"k1": B, "k2": A}


def test_another_gpus_choices_are_not_ours(store):
    store.add("gpu", {"k1": A})
    store.add("other", {"k1": B})
    assert (store.read("gpu"), store.read("other")) == ({"k1": A}, {"k1": B})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("\x00\x01", "is no JSON"),
        ('["a list"]', "is not of format 1"),
        ('{"format": 2, "gpus": {}}', "is not of format 1"),
        ('{"format": 1, "gpus": []}', "is not of format 1"),
    ],
)
def test_a_file_that_cannot_be_understood_is_said_and_kept(store, text, message):
    store.path.parent.mkdir()
    store.path.write_text(text)
    with pytest.warns(UserWarning, match=message):
        assert store.read("gpu") == {}
    assert store.path.read_text() == text
    with pytest.warns(UserWarning, match=message), pytest.warns(UserWarning, match="was moved to tuned.unreadable-0"):
        assert store.add("gpu", {"k1": A})
    assert store.read("gpu") == {"k1": A}
    (aside,) = store.path.parent.glob("*.unreadable-*.json")
    assert aside.read_text() == text


@pytest.mark.parametrize(
    "entry",
    [
        {"algo": "xy" * 64, "microseconds": 1, "aten_microseconds": 1},
        {"algo": "0f", "microseconds": 1, "aten_microseconds": 1},
        {"algo": ALGO, "microseconds": "long", "aten_microseconds": 1},
        {"algo": 7, "microseconds": 1, "aten_microseconds": 1},
        {"algo": ALGO},
        "nothing",
    ],
)
def test_an_entry_that_makes_no_sense_is_left_out_and_said(store, entry):
    store.add("gpu", {"good": A})
    data = json.loads(store.path.read_text())
    data["gpus"]["gpu"]["bad"] = entry
    store.path.write_text(json.dumps(data))
    with pytest.warns(UserWarning, match=r"1 entry\(s\) that make no sense"):
        assert store.read("gpu") == {"good": A}


def test_a_directory_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "tuned.json")
    with pytest.warns(UserWarning, match="holds for this process alone"):
        assert not store.add("gpu", {"k1": A})


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_directory_is_said(store):
    store.add("gpu", {"k1": A})
    store.path.parent.chmod(0o500)
    try:
        with pytest.warns(UserWarning, match="cannot be written"):
            assert not store.add("gpu", {"k2": B})
        assert store.read("gpu") == {"k1": A}
    finally:
        store.path.parent.chmod(0o700)


def test_a_full_disk_leaves_the_old_file_whole(store, monkeypatch):
    store.add("gpu", {"k1": A})

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert not store.add("gpu", {"k2": B})
    assert store.read("gpu") == {"k1": A}
    assert not list(store.path.parent.glob(".tuned-*"))


def _add_many(path, who):
    for i in range(25):
        Store(path).add("gpu", {f"{who}-{i}": A})


def test_processes_that_write_at_once_lose_nothing(store):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(store.path, who)) for who in range(4)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert len(store.read("gpu")) == 100


def test_the_directory_is_the_users_cache_or_the_one_named(monkeypatch, tmp_path):
    monkeypatch.delenv("THUNDER_GEMM_EX_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "thunder_gemm_ex" / "tuned.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".cache" / "thunder_gemm_ex" / "tuned.json"
    monkeypatch.setenv("THUNDER_GEMM_EX_CACHE", str(tmp_path / "named"))
    assert default_path() == tmp_path / "named" / "tuned.json"


def test_nothing_is_said_where_nothing_is_wrong(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.add("gpu", {"k1": A})
        store.read("gpu")
