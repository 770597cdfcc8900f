"""A browser for the pages, and audits to show in it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flr.audit.findings import Audit, ClassPair, ClassRate, Rate, Suspect

CLASSES = ("cat", "dog", "frog", "horse")


def make_audit(
    count: int = 60,
    classes: Sequence[str] = CLASSES,
    names: Sequence[str] = (),
    **changes: Any,
) -> Audit:
    """`count` suspects among ten times as many samples; classes take turns in fixed patterns."""
    suspects = tuple(_suspect(i, count, classes, names) for i in range(count))
    found = 0.0
    budget = []
    for i, suspect in enumerate(suspects, 1):
        found += suspect.probability
        budget.append((i, found))
    samples = 10 * count
    rate = Rate(0.06, 0.05, 0.08)
    values = {
        "site": "ward-7",
        "samples": samples,
        "classes": tuple(classes),
        "verdict": f"About 6 % of {samples:,} labels look wrong (between 5 and 8 %).",
        "rate": rate,
        "per_class": tuple(ClassRate(name, samples // len(classes), rate) for name in classes),
        "pairs": tuple(ClassPair(a, b, 12.4, rate) for a, b in pairwise(classes)),
        "suspects": suspects,
        "budget": tuple(budget),
        "unchecked": ("Samples without a label.", "Whether two samples are the same."),
        "source": "Two views: the tables of FLR and the global model.",
        "scorer": "flr",
        "key": hashlib.sha256(repr((names, classes, count)).encode()).hexdigest()[:16],
    }
    return Audit(**(values | changes))


def _suspect(i: int, count: int, classes: Sequence[str], names: Sequence[str]) -> Suspect:
    given = i % len(classes)
    suggested = (given + 1 + (i // 7) % (len(classes) - 1)) % len(classes)
    return Suspect(
        row=i,
        name=names[i] if i < len(names) else f"scan {i}.png",
        given=classes[given],
        suggested=classes[suggested],
        probability=0.99 - 0.6 * i / count,
        confidence=0.5 + 0.45 * ((i * 37) % 101) / 101,
        margin=0.4,
        agree=i % 3 > 0,
        reason=f"Reason {i}: both views name another class.",
    )


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
