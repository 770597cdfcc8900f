"""Audits to show on a page, and what a person can see and do there."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, ClassPair, ClassRate, Rate, Suspect
from flr.audit.page import write_page
from flr.audit.site_audit import SiteAudit

CLASSES = ("cat", "dog", "frog", "horse")
OTHERS = 40  # samples of the site that are no suspects

HOSTILE = (
    "plain",
    "</script><script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 2">',
    'comma, "quote" and\nnew line',
    '=HYPERLINK("x")',
    "@sum; -1 + 2",
    "кошка 🐈 \u2028 next",
    "حصان ‮ left",
    "",
    " spaces around ",
    "x" * 300,
    "constructor",
)

CHECKS = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")


def make_audit(
    count: int = 60,
    classes: Sequence[str] = CLASSES,
    names: Sequence[str] = (),
    called: str = "ward-7",
    whole: Sequence[str] = (),
    **changes: Any,
) -> Audit:
    """`count` suspects among ten times as many samples; classes take turns in fixed patterns.

    `whole` are the names of all samples of the site; without it suspects are the first rows.
    """
    suspects = tuple(_suspect(i, count, classes, names) for i in range(count))
    if whole:
        suspects = tuple(replace(s, row=whole.index(s.name)) for s in suspects)
    found = 0.0
    budget = []
    for i, suspect in enumerate(suspects, 1):
        found += suspect.probability
        budget.append((i, found))
    samples = 10 * count
    rate = Rate(0.06, 0.05, 0.08)
    values = {
        "site": called,
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


def picture(number: int, side: int = 96) -> bytes:
    """Small, of one colour."""
    image = Image.new("RGB", (16, 16), ((number * 40) % 256, 90, 160))
    file = io.BytesIO()
    image.save(file, "PNG" if number % 2 else "JPEG")
    return file.getvalue()


def make_site(
    audit: Audit,
    pictures: Any = None,
    words: Any = None,
    whole: Sequence[str] = (),
    features: torch.Tensor | None = None,
    **changes: Any,
) -> SiteAudit:
    """The site of an audit from `make_audit`, with some samples that are no suspects."""
    suspects = [s.name for s in audit.suspects]
    names = whole or suspects + [f"other {i}.png" for i in range(OTHERS)]
    n, classes = len(names), len(audit.classes)
    given = torch.arange(n) % classes
    for suspect in audit.suspects:
        given[suspect.row] = audit.classes.index(suspect.given)
    evidence = Evidence(
        site=audit.site,
        names=names,
        classes=audit.classes,
        given=given,
        views={"model": torch.full((1, 1), 1 / classes).expand(n, classes)},
        visited=None,
        source=audit.source,
        features=features,
    )
    shown = words or (lambda row: f"age {row}, heart rate 80")
    return SiteAudit(evidence, pictures or picture, shown, **changes)


class Page:
    """What a person can see and do."""

    def __init__(self, browser: Any, audit: Audit, path: Path, **site: Any) -> None:
        write_page(audit, make_site(audit, **site), path)
        self.browser, self.audit, self.path = browser, audit, path
        self.actions = pytest.importorskip("selenium.webdriver").ActionChains
        self.open()

    def open(self) -> None:
        self.browser.get(self.path.as_uri())

    def run(self, script: str, *values: Any) -> Any:
        return self.browser.execute_script(script, *values)

    def check(self, rule: str) -> list[str]:
        """What breaks a rule of page_checks.js."""
        return list(self.run(f"{CHECKS} return {rule}()"))

    def each(self, css: str, value: str) -> list[Any]:
        """`value`, an expression over the element `e`, for all elements."""
        return list(
            self.run(
                f"return [...document.querySelectorAll(arguments[0])].map((e) => {value})", css
            )
        )

    def one(self, css: str) -> Any:
        return self.browser.find_element("css selector", css)

    def all(self, css: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", css))

    def text(self, css: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", css))

    def keys(self, *keys: str) -> None:
        """Typed one after the other at whatever has the focus."""
        self.actions(self.browser).send_keys(*keys).perform()

    def click(self, css: str) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(css))
        self.one(css).click()

    @property
    def names(self) -> list[str]:
        return self.each("#suspects h3 bdi", "e.textContent")

    @property
    def current(self) -> str:
        return self.text(".card.current h3 bdi")

    @property
    def page(self) -> str:
        return f"{self.run('return page.value')} {self.text('#pages')}"

    @property
    def progress(self) -> str:
        return self.text("#progress").split(": ")[1]

    def pick(self, what: str) -> None:
        """Searches in the dialog and takes the first class found."""
        self.keys(*what, "\ue007")

    def saved(self, downloads: Path) -> list[list[str]]:
        """The rows of the file that the button saves."""
        target = self.download(downloads / "corrections.csv", "#save")
        with target.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file, strict=True))

    def download(self, target: Path, button: str) -> Path:
        """The file that a button saves."""
        target.unlink(missing_ok=True)
        self.click(button)
        for _ in range(200):
            if target.exists() and not list(target.parent.glob("*.crdownload")):
                break
            self.wait(25)
        return target

    def load(self, file: Path, words: str, at: str = "file", said: str = "loaded") -> None:
        """Chooses a file, and waits for what the page says of it."""
        self.one(f"#{at}").send_keys(str(file))
        self.until(f"#{said}", f"{file.name}: {words}")

    def wait(self, milliseconds: int) -> None:
        self.browser.execute_async_script("setTimeout(arguments[1], arguments[0])", milliseconds)

    def until(self, css: str, words: str) -> None:
        found = ""
        for _ in range(200):
            found = self.text(css)
            if words in found:
                return
            self.wait(10)
        raise AssertionError(f"{css} says {found!r}, not {words!r}")
