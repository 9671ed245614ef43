"""The report as HTML: self-contained, traces side by side, rows that link into them and show the user's lines."""

import re
from html.parser import HTMLParser

import pytest
import torch
from thunder.dynamo import thunderfx

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
    assert not {"script", "link", "img", "iframe"} & set(Outline(text).tags)
    assert not re.search(r"(src|href)=.?https?:|url\(|@import", text)


def test_every_link_leads_to_an_anchor_and_every_anchor_is_there_once(report):
    outline = Outline(report.html())
    assert outline.links
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.anchors)
    assert len(outline.anchors) == len(set(outline.anchors))


def test_every_row_links_to_its_line_in_the_trace_after(report):
    text = report.html()
    for row in report.rows:
        anchor = f"p0-after-{row.result}"
        assert f'href="#{anchor}"' in text
        line = re.search(rf'<a id="{anchor}"></a>(.*?)</span>', text).group(1)
        assert ("gemm(" in line) == (row.decision == "claimed")


def test_traces_stand_side_by_side(report):
    before, after = re.findall(r"<pre>(<span.*?)</pre>", report.html(), re.S)
    assert "torch.permute" in before
    assert "gemm(" not in before
    assert "gemm(" in after


def test_the_users_line_is_shown(report):
    first = program.__code__.co_firstlineno
    assert f"&gt; {first + 1:5}     return torch.relu(x @ w.t()) @ w" in report.html()


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
