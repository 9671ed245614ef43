"""Results as one self-contained page: a chart and a table for each suite, a roofline, and a program's trace."""

from __future__ import annotations

from pathlib import Path

import jinja2

from benchmarks.comparison import OURS
from benchmarks.plot import ratio_chart, roofline, svg
from benchmarks.results import Results, against, figures_of, geomeans, ratios_of


def page(results: Results, baseline: Results | None = None) -> str:
    """The page as text; it needs no script, no font and no address."""
    verdicts = {} if baseline is None else {(name, who): word for name, who, word in against(results, baseline)}
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    roof = roofline(list(results.comparisons()))
    return environment.get_template("page.html.j2").render(
        results=results,
        ours=OURS,
        figures_of=figures_of,
        ratios_of=ratios_of,
        geomeans=geomeans,
        verdicts=verdicts,
        charts={name: svg(ratio_chart(found)) for name, found in results.suites.items() if found},
        roof=None if roof is None else svg(roof),
        trace=_trace(),
    )


def _trace() -> str:
    """The report of attention's forward and backward, as `gx.explain` shows it: what the figures are about."""
    import thunder

    import thunder_gemm_ex as gx
    from thunder_gemm_ex.cli._check import Step
    from thunder_gemm_ex.programs import load

    module = load("attention_bshd")
    program, inputs = module.program(), module.inputs(requires_grad=True)
    jfn = thunder.jit(program, executors=gx.executors())
    Step.of(program, inputs).run(jfn)
    return gx.explain(jfn).html()
