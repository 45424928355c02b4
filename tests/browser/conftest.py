"""A headless Chromium, Debian's: ``apt-get install chromium chromium-driver``.

Where it is missing these tests fail; nothing here skips. They run only where they are asked for, ``-m browser``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1200,900",
)  # fmt: skip


class Browser:
    """What the tests ask of it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, width: int = 1200) -> None:
        """From the disk, in a window so wide; what the console said before is forgotten."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get("about:blank")
        self.console()
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of an expression in the page."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def console(self) -> list[str]:
        """Whatever the console has said since; messages come late, so one of our own is waited for."""
        mark, said = f"end {time.monotonic()}", []
        self.driver.execute_script("console.warn(arguments[0])", mark)
        end = time.monotonic() + 10
        while not any(mark in line for line in said):
            assert time.monotonic() < end, "the console does not answer"
            said += [line["message"] for line in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        return [line for line in said if mark not in line]

    def media(self, media: str = "", **features: str) -> None:
        """Pretend: a medium (print), prefers_color_scheme, prefers_reduced_motion."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": wanted})

    def scripts(self, on: bool) -> None:
        """Whether pages may run any."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    missing = [path for path in (CHROMIUM, DRIVER) if not Path(path).exists()]
    if missing:
        pytest.fail(f"{' and '.join(missing)} not found; expected them from: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    browser = Browser(chromium)
    yield browser
    browser.scripts(on=True)
    browser.media()
