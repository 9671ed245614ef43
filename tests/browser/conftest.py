"""A headless Chromium of the system, driven by selenium; without one these tests are skipped."""

import json
import os
import shutil

import pytest

FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
# The least contrast of text, as WCAG 2.1 has it for level AA.
CONTRAST = 4.5

# Every element's own text: its contrast against the nearest background that is painted.
_CONTRASTS = """
const channels = (colour) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const luminance = (colour) => {
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = channels(colour).map((x) => linear(x / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const painted = (element) => {
  for (let x = element; x; x = x.parentElement) {
    const colour = getComputedStyle(x).backgroundColor;
    if (channels(colour)[3] > 0) return colour;
  }
  return getComputedStyle(document.documentElement).colorScheme.includes("dark") &&
    matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#ffffff";
};
const own = (element) => [...element.childNodes].some((x) => x.nodeType === 3 && x.data.trim());
return [...document.body.querySelectorAll("*")].filter((x) => own(x) && x.getClientRects().length).map((x) => {
  const [dark, light] = [getComputedStyle(x).color, painted(x)].map(luminance).sort((a, b) => a - b);
  return [(light + 0.05) / (dark + 0.05), x.textContent.trim().slice(0, 60)];
});
"""


class Browser:
    """What the tests want of a browser; sizes in CSS pixels."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, width=1200, scheme="light"):
        """Show a file in a window `width` wide, for a reader who prefers the colour scheme."""
        self.messages()
        self.requests()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
        self.driver.get(path.as_uri())

    def run(self, script, *args):
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        """Every element that a CSS selector finds."""
        return self.driver.find_elements("css selector", selector)

    def messages(self):
        """What the console has said since this was last asked."""
        return [x["message"] for x in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that were asked for since this was last asked."""
        events = [json.loads(x["message"])["message"] for x in self.driver.get_log("performance")]
        return [x["params"]["request"]["url"] for x in events if x["method"] == "Network.requestWillBeSent"]

    def too_wide(self):
        """By how many pixels the page is wider than its window."""
        return self.run("const x = document.scrollingElement; return x.scrollWidth - x.clientWidth")

    def unreadable(self):
        """(contrast, text) of every piece of text whose contrast is below CONTRAST."""
        found = self.run(_CONTRASTS)
        assert found
        return [(round(contrast, 2), text) for contrast, text in found if contrast < CONTRAST]

    def seen(self, selector):
        """Whether an element is within its scrolled pane and within the window."""
        script = """
        const box = document.querySelector(arguments[0]).getBoundingClientRect();
        const pane = document.querySelector(arguments[0]).closest("pre").getBoundingClientRect();
        const inside = (outer) => box.top >= outer.top - 1 && box.bottom <= outer.bottom + 1;
        return inside(pane) && inside({ top: 0, bottom: innerHeight });
        """
        return self.run(script, selector)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One for each process of the tests; it makes no connection and keeps nothing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[test]'")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no chromium and chromedriver on PATH: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]
    for flag in flags + ["--no-sandbox"] * (os.geteuid() == 0):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # A driver that is named is never looked for, or downloaded.
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield Browser(driver)
    driver.quit()
