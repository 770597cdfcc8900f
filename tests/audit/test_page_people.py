"""The page for everybody: by screen reader, on a phone, in the dark; and with 20,000 suspects."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from flr.audit.pictures import features, no_picture
from tests.audit.pages import Page

AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
AFTER = 0.5  # seconds that a step may take with 20,000 suspects, in the median


@pytest.fixture(scope="module")
def axe() -> str:
    """Rules of axe-core, which a screen reader's users depend on."""
    if not AXE.is_file():
        pytest.skip("needs axe-core beside the checkout's files: npm install --no-save axe-core")
    return AXE.read_text(encoding="utf-8")


def violations(page: Page, axe: str, *rules: str) -> list[str]:
    """What breaks a rule, with the element that does."""
    page.run(axe)
    found = page.browser.execute_async_script(
        "const [rules, done] = arguments, only = rules.length ? {runOnly: rules} : {};"
        "axe.run(document, {...only, resultTypes: ['violations']}).then((r) => done(r.violations))",
        list(rules),
    )
    return [f"{v['id']}: {node['html'][:150]}" for v in found for node in v["nodes"]]


def numbers(row: int) -> list[tuple[str, str]]:
    return [(f"column {i}", str(row * i)) for i in range(30)]


SITES: dict[str, dict[str, Any]] = {
    "image": {"features": torch.randn(140, 4, generator=torch.Generator().manual_seed(1))},
    "text": {"pictures": no_picture, "words": lambda row: f"line {row}\n" * 40, "kind": "text"},
    "table": {"pictures": no_picture, "words": numbers, "kind": "table"},
}
STEPS = {
    "list": [],
    "grid": ["showGrid(true)"],
    "a choice": ["chooseOther()"],
    "classes": ["showClasses()"],
    "a pair": ["filter({given: 0, suggested: 1})", "startCheck(10)"],
    "nothing listed": ["filter({state: 'skip'})"],
    "a warning": ["byId('not-stored').hidden = false"],
}


@pytest.mark.parametrize("prefers", ["light", "dark"])
@pytest.mark.parametrize("kind", list(SITES))
def test_a_screen_reader_meets_no_obstacle(
    show: Any, axe: str, scheme: Any, kind: str, prefers: str
) -> None:
    scheme(prefers)
    issues = tuple((name, ("scan 1.png",), "Something.") for name in ("Outliers", "Duplicates"))
    page = show(100, site=SITES[kind] | {"other_issues": issues})
    page.keys("a", "k", "s")
    rules = ["color-contrast"] if prefers == "dark" else []  # nothing else depends on it
    for name, script in STEPS.items():
        page.run("; ".join(script))
        assert violations(page, axe, *rules) == [], f"{kind}, {prefers}: {name}"
        page.run("document.querySelectorAll('dialog').forEach((d) => d.close())")
        page.run("filter(NO_FILTER); showGrid(false)")
    if kind == "image":
        page.run("enlarge(suspects[0], 0)")
        assert violations(page, axe) == [], f"{kind}, {prefers}: the large picture"


@pytest.mark.parametrize("kind", list(SITES))
def test_all_of_it_fits_on_a_phone(show: Any, phone: None, axe: str, kind: str) -> None:
    page = show(100, site=SITES[kind])
    page.keys("a")
    for script in STEPS.values():
        page.run("; ".join(script))
        assert page.run("return document.documentElement.scrollWidth") == 360
        page.run("scrollTo(0, 0)")  # so that the bar that stays in sight covers nothing
        assert violations(page, axe, "target-size", "scrollable-region-focusable") == []
        page.run("document.querySelectorAll('dialog').forEach((d) => d.close())")
        page.run("filter(NO_FILTER); showGrid(false)")
    bar = page.run("return document.querySelector('.bar').offsetHeight")
    assert bar < 800 / 6, "what stays in sight leaves room for the picture"


def test_twenty_thousand_suspects(show: Any, record_property: Any) -> None:
    begun = time.monotonic()
    page = show(20_000, site={"features": torch.randn(20_040, 64)})
    made = time.monotonic() - begun
    size = page.path.stat().st_size
    assert size < 80 * 2**20
    waited = page.browser.execute_async_script(
        """
        const [done] = arguments, waited = [];
        const painted = () => new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
        const steps = [
          () => ACTS.accept(), () => go(19000), () => ACTS.keep(), () => ACTS.undo(),
          () => filter({given: 1}), () => filter(NO_FILTER), () => showGrid(true),
          () => ACTS.skip(),
        ];
        (async () => {
          for (const step of steps) {
            const start = performance.now();
            step();
            await painted();
            waited.push(performance.now() - start);
          }
          done(waited);
        })();
        """
    )
    assert page.run("return document.getElementsByTagName('*').length") < 1500
    said = f"{made:.1f} s, {size / 2**20:.1f} MB, steps {json.dumps([round(w) for w in waited])}"
    record_property("made_size_steps", said)
    assert sorted(waited)[len(waited) // 2] < 1000 * AFTER, said
    page.run("decide([...suspects.keys()].map((i) => [i, {what: 'keep', audit: audit.key}]))")
    assert page.run("return stored"), "all decisions fit into what the browser keeps"
    page.browser.refresh()
    assert page.text("#progress").startswith("20,000 of 20,000 suspects decided")


def test_a_wide_table_scrolls_in_its_own_box(show: Any, phone: None) -> None:
    x = torch.randn(100, 12) * 1e6
    names = [f"a_column_with_a_long_name_{i}" for i in range(12)]
    site = {"pictures": no_picture, "words": features(x, torch.arange(100), names), "features": x}
    page = show(site=site | {"kind": "table"})
    assert page.run("return document.documentElement.scrollWidth") == 360
    assert page.one("#card-0 .values").is_displayed()
