"""The house: which room of the package imports which, read off the sources, and drawn.

`python -m tests.house` draws it anew into docs/house.svg. A line goes from a room up to one that imports it; imports that
follow from others (a room's of what its own imports import) have no line of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "thunder_gemm_ex"
PICTURE = ROOT / "docs" / "house.svg"
# Who stands at the entrance may come from anywhere.
ENTRANCES = {"__init__", "__main__", "cli"}
# A number and a function that writes a file: anybody may have them.
_LEFT_OUT = {"_files", "_version"}
# (column, floor) in the picture: a room stands above all that it imports.
_PLACES = {
    "spec": (2.8, 0),
    "engines": (1.3, 1),
    "graph": (4.4, 1),
    "tuning": (0.0, 2),
    "operator": (0.85, 2),
    "rules": (4.4, 2),
    "inductor": (0.3, 3),
    "eager": (1.3, 3),
    "symbols": (2.2, 3),
    "report": (3.2, 3),
    "emit": (4.4, 3),
    "front_door": (5.4, 3),
    "eager_door": (1.3, 4),
    "gradients": (5.4, 4),
    "executor": (3.2, 5),
    "ways_in": (3.2, 6),
    "programs": (5.4, 0),
}
_WIDTH, _HEIGHT, _BOX = 900, 520, 30

Rooms = Mapping[str, set[str]]


def room_of(path: Path, package: Path) -> str:
    """The room that a source file belongs to."""
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that a file imports, wherever in it: inside functions too, relative or not."""
    here = (package.name, *path.relative_to(package).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [*here[: len(here) - node.level], *base]
            # `from package import room` names the room only in what is imported.
            names = [alias.name for alias in node.names] if base == [package.name] else [None]
            yield from ((node.lineno, ".".join([*base, name] if name else base)) for name in names)


def rooms(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The rooms that each room imports, itself and the entrances left out."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = room_of(path, package)
        if room in ENTRANCES:
            continue
        names = [name.split(".") for _, name in imported(path, package)]
        found.setdefault(room, set()).update(
            x[1] for x in names if x[0] == package.name and len(x) > 1 and x[1] != room
        )
    return {room: {other for other in others if other in found} for room, others in found.items()}


def reduced(house: Rooms) -> dict[str, set[str]]:
    """The imports that do not follow from others."""
    return {room: {x for x in house[room] if not any(x in below(house, y) for y in house[room])} for room in house}


def below(house: Rooms, room: str) -> set[str]:
    """Everything that a room stands on, directly or not."""
    return {y for x in house[room] for y in {x} | below(house, x)}


def draw(house: Rooms) -> str:
    """The house as SVG. KeyError for a room that has no place."""
    shown = {room: others for room, others in house.items() if room not in _LEFT_OUT}
    at = {room: (90 + int(135 * _PLACES[room][0]), _HEIGHT - 40 - 74 * _PLACES[room][1]) for room in shown}
    thin = {room: others - _LEFT_OUT for room, others in reduced(house).items()}
    lines = [_line(at[x], at[room]) for room in sorted(shown) for x in sorted(thin[room])]
    boxes = [_box(room, *at[room]) for room in sorted(at)]
    frame = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>'
    title = "<title>The rooms of thunder_gemm_ex: each line goes up to a room that imports the lower one</title>"
    ground = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
    return "\n".join([head, title, ground, *lines, *boxes, "</svg>", ""])


def misplaced(house: Rooms) -> list[tuple[str, str]]:
    """(room, what it imports) where the picture would have a line that goes down or sideways."""
    places = {room: floor for room, (_, floor) in _PLACES.items()}
    return [(room, x) for room in house for x in house[room] - _LEFT_OUT if places[x] >= places[room]]


def _line(low: tuple[int, int], high: tuple[int, int]) -> str:
    (x, y), (u, v) = low, high
    y, v = y - _BOX // 2, v + _BOX // 2
    bend = (y - v) // 2
    return f'<path d="M{x} {y}C{x} {y - bend} {u} {v + bend} {u} {v}" fill="none" stroke="#8a9bb0" stroke-width="1.3"/>'


def _box(name: str, x: int, y: int) -> str:
    width = 9 * len(name) + 18
    place = f'x="{x - width // 2}" y="{y - _BOX // 2}" width="{width}" height="{_BOX}" rx="5"'
    box = f'<rect {place} fill="#e8eef6" stroke="#3b5b84"/>'
    return f'{box}<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#16263c">{escape(name)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(rooms()))
