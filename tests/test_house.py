"""The one direction of imports between the rooms of the package, drawn from the sources themselves."""

import textwrap

import pytest

from tests.house import ENTRANCES, PACKAGE, PICTURE, draw, imported, misplaced, reduced, room_of, rooms

# A room is a module or folder of the package; each may import these rooms, itself, and nothing else of the package.
MAY_IMPORT = {
    "_version": set(),
    "_files": set(),
    "programs": set(),
    "spec": set(),
    "engines": {"spec"},
    "graph": {"spec"},
    "rules": {"spec", "graph"},
    "emit": {"spec", "graph", "rules"},
    "front_door": {"spec", "graph"},
    "gradients": {"graph"},
    "symbols": {"spec", "engines"},
    "operator": {"spec", "engines"},
    "eager": {"spec", "engines", "operator"},
    "eager_door": {"spec", "operator", "eager"},
    "inductor": {"spec", "operator"},
    "tuning": {"_files", "_version", "spec", "engines"},
    "report": {"_files", "_version", "spec", "engines", "graph", "rules"},
    "executor": {
        *("_version", "spec", "engines", "graph", "rules", "emit"),
        *("front_door", "gradients", "symbols", "operator", "eager", "eager_door", "report"),
    },
    "ways_in": {"executor"},
}
# What a room must not know of the world outside.
STRANGERS = {
    "spec": {"torch", "thunder", "numpy", "tvm_ffi"},
    "engines": {"thunder"},
    "graph": {"tvm_ffi"},
    "rules": {"tvm_ffi"},
    "tuning": {"thunder", "tvm_ffi"},
    "operator": {"thunder", "tvm_ffi"},
    "eager": {"thunder", "tvm_ffi"},
    "inductor": {"thunder", "tvm_ffi"},
    "programs": {"thunder", "tvm_ffi"},
}


def offences(package, may_import=MAY_IMPORT):
    """A sentence for every import against the direction of the house, and for every room that has no place in it."""
    for path in sorted(package.rglob("*.py")):
        room = room_of(path, package)
        where = path.relative_to(package)
        if room in ENTRANCES:
            continue
        if room not in may_import:
            yield f"{where}: the room {room} has no place in the house: say what it may import"
            continue
        for line, name in imported(path, package):
            first, *rest = name.split(".")
            other = rest[0] if rest else "__init__"
            if first == package.name and other != room and other not in may_import[room]:
                yield f"{where}:{line}: {room} imports {other}, against the direction of the house"
            if first in STRANGERS.get(room, ()):
                yield f"{where}:{line}: {room} imports {first}, which it must not know"


def test_imports_run_one_way():
    assert list(offences(PACKAGE)) == []


def test_the_house_has_no_circle():
    done = set()
    while rest := MAY_IMPORT.keys() - done:
        free = {room for room in rest if MAY_IMPORT[room] <= done}
        assert free, f"these rooms import each other in a circle: {sorted(rest)}"
        done |= free


def test_engines_know_no_rules_and_rules_no_engines():
    assert not MAY_IMPORT["engines"] & {"graph", "rules", "emit", "executor", "report"}
    assert not {"engines", "operator", "executor"} & MAY_IMPORT["rules"]


@pytest.mark.parametrize("room", [r for r in MAY_IMPORT if (PACKAGE / r).exists() or (PACKAGE / f"{r}.py").exists()])
def test_the_design_page_shows_every_room(room):
    page = (PACKAGE.parent / "docs" / "design.md").read_text()
    picture = page.partition("```")[2].partition("```")[0]
    assert room.strip("_") in picture.replace(",", " ").split()


def test_the_picture_of_the_design_page_is_drawn_from_the_imports():
    assert PICTURE.read_text() == draw(rooms()), "python -m tests.house draws it anew"
    assert f"]({PICTURE.name})" in (PICTURE.parent / "design.md").read_text()


def test_another_import_is_another_picture():
    house = rooms()
    assert draw(house | {"spec": {"programs"}}) != draw(house)


def test_every_line_of_the_picture_goes_up():
    assert misplaced(rooms()) == []
    assert misplaced({"spec": {"graph"}, "graph": set()}) == [("spec", "graph")]


def test_only_imports_that_follow_from_others_have_no_line():
    house = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a"}}
    assert reduced(house) == {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"a"}}


@pytest.mark.parametrize(
    ("file", "source", "offence"),
    [
        ("engines/aten.py", "from thunder_gemm_ex.rules import find", "engines imports rules"),
        ("engines/aten.py", "from thunder_gemm_ex.rules.find import x", "engines imports rules"),
        ("engines/aten.py", "import thunder_gemm_ex.graph", "engines imports graph"),
        ("engines/aten.py", "from thunder_gemm_ex import executor", "engines imports executor"),
        ("engines/aten.py", "def f():\n    from ..rules.find import x", "engines imports rules"),
        ("engines/aten.py", "from .. import rules", "engines imports rules"),
        ("spec/cost.py", "import torch.nn", "spec imports torch"),
        ("spec/cost.py", "from thunder_gemm_ex import gemm", "spec imports gemm"),
        ("rules/find.py", "from thunder_gemm_ex.engines import aten", "rules imports engines"),
        ("attic/find.py", "", "the room attic has no place"),
        ("attic.py", "", "the room attic has no place"),
    ],
)
def test_an_import_against_the_direction_is_found(tmp_path, file, source, offence):
    path = tmp_path / "thunder_gemm_ex" / file
    path.parent.mkdir(parents=True)
    path.write_text(textwrap.dedent(source))
    found = list(offences(tmp_path / "thunder_gemm_ex"))
    assert len(found) == 1
    assert offence in found[0]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("rules/find.py", "from thunder_gemm_ex.graph import Graph\nfrom .layout import x\nimport thunder"),
        ("spec/cost.py", "from .contraction import Contraction\nimport math"),
        ("cli/demo.py", "from thunder_gemm_ex.executor import gemm_ex"),
        ("executor.py", "from . import report\nfrom .rules.find import x"),
    ],
)
def test_an_import_along_the_direction_is_none(tmp_path, file, source):
    path = tmp_path / "thunder_gemm_ex" / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert list(offences(tmp_path / "thunder_gemm_ex")) == []
