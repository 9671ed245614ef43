"""The benchmarks' page in a browser, with the report that it embeds."""

import pytest

from thunder_gemm_ex.cli import main


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pytest.importorskip("matplotlib")
    found = tmp_path_factory.mktemp("bench") / "page.html"
    assert main(["bench", "overhead", "--rounds", "2", "--device", "cpu", "--html", str(found), "--json"]) == 0
    return found


def test_it_loads_without_a_word_and_asks_for_nothing(browser, path):
    browser.open(path)
    assert browser.messages() == []
    assert set(browser.requests()) <= {path.as_uri(), "about:srcdoc"}


def test_it_has_a_chart_and_a_table_and_the_report(browser, path):
    browser.open(path)
    assert browser.find("svg")
    assert browser.find("td.number")
    browser.driver.switch_to.frame(browser.find("iframe")[0])
    assert browser.find("tr[data-rows]")
    browser.driver.switch_to.default_content()


@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_never_scrolls_sideways(browser, path, width):
    browser.open(path, width)
    assert browser.too_wide() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_is_readable(browser, path, scheme):
    browser.open(path, scheme=scheme)
    assert browser.unreadable() == []
