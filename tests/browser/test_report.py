"""The report's page in a browser: what it says, what its links show, on narrow and wide windows, in light and dark."""

import pytest
import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from thunder_gemm_ex.cli._check import Step
from thunder_gemm_ex.programs import load


def every_decision(x, w, p, z):
    y = x @ w.t()
    return y @ p, torch.relu(x[:, :1] @ w[:1, :1]), torch.mm(z, z)


def attention():
    module = load("attention_bshd")
    return module.program(), module.inputs(b=1, s=16, requires_grad=True), gx.executors()


def fused():
    square = torch.randn(4, 4, dtype=torch.complex64)
    inputs = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 6), square
    return every_decision, inputs, [gx.gemm_ex, torch_compile_ex, *thunder.get_always_executors()]


@pytest.fixture(scope="module", params=[attention, fused], ids=lambda make: make.__name__)
def report(request):
    """Of a training step with gradients in rows of their own, and of one with every decision and a fused region."""
    program, inputs, executors = request.param()
    jfn = thunder.jit(program, executors=executors)
    Step.of(program, inputs).run(jfn)
    return gx.explain(jfn)


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    found = tmp_path_factory.mktemp("report") / "page.html"
    report.to_html(found)
    return found


def links(browser):
    return browser.find("tr[data-rows] a")


def marked(browser, pane):
    """The text of each line that is marked in a pane."""
    return [line.text for line in browser.find(f".{pane} .on")]


def test_the_programs_have_every_decision_between_them():
    decisions = set()
    for make in (attention, fused):
        program, inputs, executors = make()
        jfn = thunder.jit(program, executors=executors)
        jfn(*inputs)
        decisions |= {row.decision for row in gx.explain(jfn).rows}
    assert decisions == {"claimed", "multiply", "given back", "declined"}


def test_it_loads_without_a_word_and_asks_for_nothing(browser, path):
    browser.open(path)
    assert browser.messages() == []
    assert browser.requests() == [path.as_uri()]


def test_rows_are_those_of_the_data(browser, path, report):
    browser.open(path)
    shown = [[cell.text for cell in row.find_elements("css selector", "td")] for row in browser.find("tbody tr")]
    data = report.to_dict()["rows"]
    assert len(shown) == len(data) > 0
    for (matmul, decision, done), row in zip(shown, data):
        assert matmul.split()[0] == row["op"]
        assert ("(backward)" in matmul) == row["backward"]
        assert row["where"].rpartition("/")[2] in matmul
        assert decision == row["decision"]
        assert row["spec"] in done
        assert row["reason"] in done
        assert all(run["call"] in done for run in row["runs"])


def test_every_row_has_its_line_of_source_and_traces(browser, path, report):
    browser.open(path)
    for number in range(len(report.rows)):
        for pane in ("source", "before", "after"):
            assert len(browser.find(f".{pane} [data-rows~='{number}']")) == 1


def test_a_link_shows_what_belongs_to_its_row(browser, path, report):
    browser.open(path)
    assert len(links(browser)) == 3 * len(report.rows)
    for link in links(browser):
        browser.run("arguments[0].scrollIntoView()", link)
        link.click()
        (number,) = [row.get_attribute("data-rows") for row in browser.find("tr.on")]
        row = report.rows[int(number)]
        (source,), (before,), (after,) = (marked(browser, pane) for pane in ("source", "before", "after"))
        assert source.split()[0] == row.where.rpartition(":")[2]
        assert row.product in before or "TorchCompile" in before
        assert row.result in after or "TorchCompile" in after
        assert ("gemm(" in after) == (row.decision == "claimed")
        assert browser.seen(f"{link.get_attribute('hash') or '#' + link.get_attribute('href').partition('#')[2]}")


def test_a_line_shows_its_rows_and_leaves_its_pane_where_it_is(browser, path):
    browser.open(path)
    for line in browser.find(".after [data-rows]"):
        browser.run("arguments[0].scrollIntoView()", line)
        before = browser.run("return arguments[0].closest('pre').scrollTop", line)
        line.click()
        assert browser.run("return arguments[0].closest('pre').scrollTop", line) == before
        rows = [row.get_attribute("data-rows") for row in browser.find("tr.on")]
        assert rows == line.get_attribute("data-rows").split()
        assert line.text in marked(browser, "after")


def test_other_lines_mark_nothing(browser, path):
    browser.open(path)
    browser.find(".after span:not([data-rows])")[0].click()
    browser.find("h1")[0].click()
    assert browser.find(".on") == []


@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_never_scrolls_sideways(browser, path, width):
    browser.open(path, width)
    assert browser.too_wide() == 0


@pytest.mark.parametrize(("width", "columns"), [(400, 1), (1200, 2)])
def test_traces_stand_side_by_side_where_there_is_room(browser, path, width, columns):
    browser.open(path, width)
    lefts = {pane.rect["x"] for pane in browser.find(".before, .after")}
    assert len(lefts) == columns


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_is_readable_marked_or_not(browser, path, scheme):
    browser.open(path, scheme=scheme)
    assert browser.unreadable() == []
    links(browser)[0].click()
    assert browser.unreadable() == []


def test_the_colour_scheme_is_the_readers(browser, path):
    grounds = []
    for scheme in ("light", "dark"):
        browser.open(path, scheme=scheme)
        grounds.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(set(grounds)) == 2


@pytest.mark.parametrize("ground", ["#ffffff; color: #000000", "#111111; color: #e0e0e0"], ids=["light", "dark"])
def test_a_notebooks_table_takes_the_notebooks_colours(browser, report, tmp_path, ground):
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f'<!doctype html><meta charset="utf-8"><body style="background: {ground}">{report._repr_html_()}'
    )
    browser.open(notebook, 800)
    assert browser.messages() == []
    # A notebook does not say which it has: no colour has 4.5 on both. The decisions, in bold, have 4.5 and 4.1.
    assert [x for x in browser.unreadable() if x[0] < 4.1] == []
