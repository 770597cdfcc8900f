"""A browser for the pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flr.audit.findings import Audit
from tests.audit.pages import Page, make_audit


@pytest.fixture(scope="session")
def audit_of() -> Callable[..., Audit]:
    """Makes an audit; see `make_audit`."""
    return make_audit


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser puts the files that a page saves."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with a new profile, which notes every request."""
    selenium = pytest.importorskip("selenium.webdriver")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs chromium and chromedriver")
    options = selenium.ChromeOptions()
    options.binary_location = program
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    window = selenium.Chrome(options, selenium.ChromeService(driver))
    yield window
    window.quit()


@pytest.fixture
def show(browser: Any, audit_of: Callable[..., Audit], tmp_path: Path) -> Iterator[Any]:
    """Writes an audit's page and opens it, without decisions from before."""

    def make(*values: Any, site: Any = None, fresh: bool = True, **changes: Any) -> Page:
        page = Page(browser, audit_of(*values, **changes), tmp_path / "audit.html", **(site or {}))
        browser.get_log("browser")  # that of the tests before
        if fresh:
            page.run("localStorage.clear(); restoreAll(); arrange(); go(0, false)")
        return page

    yield make
    browser.get("about:blank")


@pytest.fixture
def phone(browser: Any) -> Iterator[None]:
    """A window as wide as a phone's."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 800, "deviceScaleFactor": 2, "mobile": True},
    )
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def scheme(browser: Any) -> Iterator[Callable[[str], None]]:
    """Sets what the person prefers: "light" or "dark"."""

    def prefer(name: str) -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    yield prefer
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
