"""The report as HTML: self-contained, traces side by side, rows that link into them and show the user's lines."""

import html
import re
from html.parser import HTMLParser

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from tests.checks import jit


def program(x, w):
    return torch.relu(x @ w.t()) @ w


class Outline(HTMLParser):
    """The links, anchors and tags of a page, every tag closed in its turn."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.tags, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [attributes["href"]] if "href" in attributes else []
        self.anchors += [attributes["id"]] if "id" in attributes else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report():
    jfn = jit(program)
    jfn(torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)).sum().backward()
    return gx.explain(jfn)


def test_the_page_is_well_formed(report):
    assert Outline(report.html()).open == []


def test_the_page_needs_nothing_else(report):
    text = report.html()
    assert not {"link", "img", "iframe"} & set(Outline(text).tags)
    assert not re.search(r"(src|href)=.?https?:|<script .|url\(|@import|fetch\(", text)


def test_every_link_leads_to_an_anchor_and_every_anchor_is_there_once(report):
    outline = Outline(report.html())
    assert outline.links
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.anchors)
    assert len(outline.anchors) == len(set(outline.anchors))


def lines(text):
    """By anchor, the text of each line of the panes."""
    return {anchor: html.unescape(line) for anchor, line in re.findall(r'<span id="([^"]+)"[^>]*>(.*?)</span>', text)}


def links(text):
    """For each row in turn: by pane, the line that it links to."""
    found = []
    for row in re.findall(r"<tr data-rows=.*?</tr>", text, re.S):
        anchors = re.findall(r'href="#([^"]+)"', row)
        found.append({anchor.split("-")[1]: lines(text)[anchor] for anchor in anchors})
    return found


def test_every_row_links_to_its_line_in_the_trace_after(report):
    for row, link in zip(report.rows, links(report.html()), strict=True):
        assert row.result in link["after"].partition(" = ")[0]
        assert ("gemm(" in link["after"]) == (row.decision == "claimed")


def test_every_row_links_to_its_product_in_the_trace_before(report):
    for row, link in zip(report.rows, links(report.html()), strict=True):
        assert row.product in link["before"].partition(" = ")[0]
        assert "matmul(" in link["before"]


def test_every_row_links_to_the_users_line(report):
    for row, link in zip(report.rows, links(report.html()), strict=True):
        assert link["source"].split()[0] == row.where.rpartition(":")[2]
        assert link["source"].endswith("    return torch.relu(x @ w.t()) @ w")


def test_a_row_within_a_fused_region_links_to_the_region():
    """K=1 between pointwise operations becomes a multiply, which no line of the trace after shows any more."""
    jfn = thunder.jit(lambda x, y: torch.relu(x @ y) * 2, executors=[gx.gemm_ex, torch_compile_ex])
    jfn(torch.randn(3, 1), torch.randn(1, 4))
    report = gx.explain(jfn)
    assert [row.decision for row in report.rows] == ["multiply"]
    (link,) = links(report.html())
    assert "TorchCompile" in link["after"]


def test_traces_stand_side_by_side(report):
    panes = {name: [] for name in ("source", "before", "after")}
    for anchor, line in lines(report.html()).items():
        panes[anchor.split("-")[1]].append(line)
    before, after = ("\n".join(panes[name]) for name in ("before", "after"))
    assert "torch.permute" in before
    assert "gemm(" not in before
    assert "gemm(" in after


def test_comments_that_quote_the_user_are_no_matmuls(report):
    marked = re.findall(r'<span id="p0-before-\d+" class="matmul"[^>]*>(.*?)</span>', report.html())
    assert marked
    assert not [line for line in marked if line.lstrip().startswith("#")]


def test_lines_between_two_places_are_left_out():
    def far(x, w):
        y = x @ w.t()
        # One line
        # that is
        # no matmul
        # and no neighbour
        # of one,
        # after another.
        return torch.relu(y) @ w

    jfn = jit(far)
    jfn(torch.randn(3, 4), torch.randn(5, 4))
    source = [line for anchor, line in lines(gx.explain(jfn).html()).items() if "-source-" in anchor]
    assert source[0] == __file__
    assert [line.strip() for line in source].count("...") == 1
    assert not any("and no neighbour" in line for line in source)


def test_a_notebook_shows_the_users_line(report):
    first = program.__code__.co_firstlineno
    assert f"&gt; {first + 1:5}     return torch.relu(x @ w.t()) @ w" in report._repr_html_()


def test_what_a_user_named_is_text_and_no_markup():
    def f(x, w):
        return x @ w.t()

    f.__name__ = "<b>f</b>"
    jfn = jit(f)
    jfn(torch.randn(3, 4), torch.randn(5, 4))
    text = gx.explain(jfn).html()
    assert "<b>f</b>" not in text
    assert Outline(text).open == []


def test_a_notebook_shows_the_table_alone(report):
    text = report._repr_html_()
    assert "<html" not in text
    assert "<td" in text
    assert Outline(text).links == []


def test_each_graph_of_thunderfx_has_its_traces():
    def broken(x, w):
        y = torch.relu(x) @ w.t()
        torch._dynamo.graph_break()
        return torch.relu(y) @ w

    fn = thunderfx(broken, executors=gx.executors())
    fn(torch.randn(3, 4), torch.randn(5, 4))
    report = gx.explain(fn)
    assert [row.program for row in report.rows] == [0, 1]
    outline = Outline(report.html())
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.anchors)
    assert {link[1:3] for link in outline.links} == {"p0", "p1"}


def test_it_is_written_to_a_file(report, tmp_path):
    report.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == report.html()
    assert [x.name for x in tmp_path.iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_made_leaves_the_file_as_it_was(report, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("before")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        report.to_html(page)
    assert page.read_text() == "before"
    assert [x.name for x in tmp_path.iterdir()] == ["page.html"]
