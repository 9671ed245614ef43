"""The pages of the documentation, and the blocks of code that stand in them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks/README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]
# The first line of a block of Python that is compiled here and runs only where there is a device.
ON_A_GPU = "# on a GPU"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its first line's number in the page."""

    language: str
    text: str
    line: int

    @property
    def on_a_gpu(self) -> bool:
        """Whether it is marked as one that needs a device."""
        return self.text.startswith(ON_A_GPU)


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page's text, in order."""
    fences = re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", page, re.MULTILINE)
    return [Block(found[1].strip(), found[2], page[: found.start(2)].count("\n") + 1) for found in fences]


def name_of(page: Path) -> str:
    """A page as it is named in the checkout."""
    return str(page.relative_to(ROOT))
