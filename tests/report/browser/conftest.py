"""One headless chromium for all tests here, and what they ask of a page in it. What is missing is an error, no skip."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = (
    "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-dev-shm-usage",
)  # fmt: skip
WIDTHS = {"desktop": (1280, 900), "phone": (375, 740)}
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 160)).join(" | "))),
  (error) => done(["axe failed: " + error]));
"""


@dataclass
class Browser:
    """The browser, and what happened in it since the page was opened."""

    driver: webdriver.Chrome
    width: int = 0

    def open(self, page: Path | str, width: str = "desktop", scripts: bool = True) -> None:
        """Open a page and wait until its figures stand."""
        size = WIDTHS[width]
        self.width = size[0]
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": width == "phone"},
        )
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(page if isinstance(page, str) else page.resolve().as_uri())
        if scripts:
            self.wait("document.documentElement.dataset.drawn !== undefined")

    def sticks_out(self) -> bool:
        """Whether something is wider than the screen; a phone would zoom out, so its own width says nothing."""
        return int(self.ask("document.documentElement.scrollWidth")) > self.width

    def ask(self, script: str, *arguments: Any) -> Any:
        """The value of an expression in the page."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, script: str, seconds: float = 120) -> None:
        """Wait until an expression is true; ``seconds`` only ends a wait that would never end."""
        WebDriverWait(self.driver, seconds, 0.05).until(lambda driver: driver.execute_script(f"return {script}"))

    def complaints(self) -> list[str]:
        """What the page wrote to the console: errors, warnings, refusals."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def axe(self) -> list[str]:
        """What the accessibility checker has to say: all its rules."""
        self.driver.execute_script(AXE.read_text())
        return list(self.driver.execute_async_script(RUN_AXE))

    def choose(self, figure: str, menu: str, value: str) -> None:
        """Choose from a menu above a figure, as a person would, and wait for what it draws."""
        labels = self.driver.find_elements(By.CSS_SELECTOR, f"#figure-{figure} .menus label")
        (label,) = [label for label in labels if label.text.startswith(menu)]
        Select(label.find_element(By.TAG_NAME, "select")).select_by_visible_text(value)

    def screenshot(self, path: Path) -> None:
        """All of the page, to be looked at."""
        clip = {"x": 0, "y": 0, "scale": 1, **self.ask("(({scrollWidth: width, scrollHeight: height}) => "
                                                       "({width, height}))(document.documentElement)")}  # fmt: skip
        asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    wanted = {"chromium": chromium, "chromium-driver": driver, f"npm ci in {AXE.parents[2].name}/": AXE.exists()}
    lacking = [name for name, found in wanted.items() if not found]
    if lacking or chromium is None or driver is None:
        pytest.fail(
            f"the browser tests need {', '.join(lacking)}; on Debian, as root, tests/system.sh "
            "installs all of it (apt-get install chromium chromium-driver nodejs npm; npm ci)",
            pytrace=False,
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))  # a named driver: nothing is looked for
    try:
        yield Browser(started)
    finally:
        started.quit()


@pytest.fixture
def told(
    browser: Browser, record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> Iterator[None]:
    """Measure when the page of the test was ready; the summary of the tests prints it."""
    yield
    seconds = browser.ask("performance.getEntriesByName('drawn')[0].startTime") / 1000
    record_property("interactive", f"{request.node.name}: all figures drawn after {seconds:.2f} s")
