"""Reporting on whatever is compiled within a block, for who does not have the compiled functions at hand."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from thunder.dynamo.utils import SubgraphInfo

from thunder_gemm_ex.report.explain import Part, parts_of_graph, report_of
from thunder_gemm_ex.report.record import watchers
from thunder_gemm_ex.report.rows import Report


@contextlib.contextmanager
def watch() -> Iterator[Callable[[], Report]]:
    """Yields a function that reports on all that is compiled with the executor within the block, in that order."""
    seen: dict[int, Part] = {}

    def note(data: Any, stats: Any) -> None:
        seen.setdefault(id(stats), Part(data, stats))

    watchers.append(note)
    try:
        yield lambda: report_of(_with_graphs(seen).values())
    finally:
        watchers.remove(note)


def _with_graphs(seen: dict[int, Part]) -> dict[int, Part]:
    """The parts, those of ThunderFX with the graphs that know the user's lines."""
    infos = [x for x in gc.get_objects() if type(x) is SubgraphInfo]
    known = {id(part.stats): part for info in infos for part in parts_of_graph(info)}
    return {key: known.get(key, part) for key, part in seen.items()}
