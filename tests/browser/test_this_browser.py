"""That the checks find what they look for: each is given a page that is wrong."""

import pytest


@pytest.fixture
def show(browser, tmp_path):
    def shown(body, **kwargs):
        path = tmp_path / "page.html"
        path.write_text(f'<!doctype html><meta charset="utf-8"><body>{body}')
        browser.open(path, **kwargs)
        return browser

    return shown


def test_messages(show):
    assert "broken" in show("<script>console.error('broken')</script>").messages()[0]


def test_requests(show):
    assert len(show("<img src='nothing.png'>").requests()) == 2


def test_width(show):
    assert show("<p style='width: 900px'>wide", width=400).too_wide() > 400


def test_contrast(show):
    assert show("<p style='color: #ccc'>pale</p><p>not</p>").unreadable() == [(1.61, "pale")]
