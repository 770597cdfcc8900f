"""What a person sees of a sample: its picture as large as it is, its text, its values, others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from flr.audit import page_content, pictures
from flr.audit.page import write_page
from tests.audit.pages import Page, make_site, picture

BROWSER_SHOWS = {"photo.jpg": "RGB", "drawing.png": "P", "scan.bmp": "RGB"}


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Pictures of several kinds; the folder's name has to be escaped in an address."""
    folder = tmp_path / "ward 7 #1 % ü"
    folder.mkdir()
    colours = np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)
    for name, mode in BROWSER_SHOWS.items():
        Image.fromarray(colours).convert(mode).save(folder / name)
    deep = np.linspace(0, 4095, 300 * 400).reshape(300, 400).astype(np.uint16)
    Image.fromarray(deep).save(folder / "deep.png")
    Image.fromarray(deep).save(folder / "deep.tif")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    return folder


def of_files(folder: Path) -> tuple[list[str], dict[str, Any]]:
    names = sorted(path.name for path in folder.iterdir())
    rows = [*names, *["photo.jpg"] * 40]
    site = {
        "pictures": pictures.from_files(folder, rows),
        "sources": lambda row: folder / rows[row],
    }
    return names, site


def wait_for(page: Page, script: str) -> Any:
    for _ in range(200):
        found = page.run(f"return {script}")
        if found:
            return found
        page.wait(10)
    raise AssertionError(script)


def test_pictures_are_shown_in_full_resolution(show: Any, scans: Path) -> None:
    names, site = of_files(scans)
    page = show(len(names), names=names, site=site)
    policy = page.run("return document.querySelector('meta[http-equiv]').content")
    assert "img-src data: file:;" in policy
    for i, name in enumerate(names):
        page.run(f"go({i})")
        if name == "broken.png":
            assert page.text(f"#card-{i} .features") == f"age {i}, heart rate 80"
            continue
        wait_for(page, f"document.querySelector('#card-{i} img').naturalWidth === 400")
        linked = page.run(f"return suspects[{i}].file ?? null")
        assert (linked is not None) == (name in BROWSER_SHOWS)
        page.keys("z")
        wait_for(page, "stageImage().naturalWidth === 400")
        assert "400 × 300 pixels" in page.text("#viewer-size")
        page.keys("\ue00c")
    assert page.browser.get_log("browser") == []


def test_zoom_and_brightness(show: Any, scans: Path) -> None:
    names, site = of_files(scans)
    page = show(len(names), names=names, site=site)
    page.run(f"go({names.index('photo.jpg')})")
    page.click(".card.current .picture")
    wait_for(page, "stageImage()?.naturalWidth === 400")
    fitted = page.run("return viewer.scale")
    page.keys("+", "+")
    assert page.run("return viewer.scale") == pytest.approx(fitted * 2.25)
    assert page.run("return byId('stage').scrollWidth > byId('stage').clientWidth")
    page.keys("1")
    assert "at 100\u00a0%" in page.text("#viewer-size")
    page.keys("0")
    assert page.run("return viewer.scale") == pytest.approx(fitted)
    page.run("byId('contrast').value = 250; byId('contrast').dispatchEvent(new Event('input'))")
    assert page.run("return stageImage().style.filter") == "brightness(100%) contrast(250%)"
    page.click("#shade-reset")
    assert page.run("return stageImage().style.filter") == "brightness(100%) contrast(100%)"
    page.click("#viewer-acts [data-act=keep]")
    assert page.progress == "0 accepted, 1 kept, 0 skipped"
    assert page.one("#viewer").is_displayed()
    assert page.text("#viewer-title").startswith(page.current), "it goes on with the next one"
    page.keys("a", "\ue00c")
    assert page.progress == "1 accepted, 1 kept, 0 skipped"
    assert page.run("return document.activeElement.className") == "card current"


def test_a_file_that_was_moved_leaves_its_thumbnail(show: Any, scans: Path) -> None:
    names, site = of_files(scans)
    page = show(len(names), names=names, site=site)
    (scans / "photo.jpg").unlink()
    page.browser.refresh()
    page.run(f"go({names.index('photo.jpg')})")
    wait_for(page, "document.querySelector('.card.current img').naturalWidth === 96")
    page.keys("z")
    wait_for(page, "stageImage().naturalWidth === 96")
    assert "The file is not where it was" in page.text("#viewer-note")
    page.keys("a")
    assert page.text("#viewer-note") == ""


def content_of(audit: Any, site: dict[str, Any], path: Path) -> dict[str, Any]:
    write_page(audit, make_site(audit, **site), path)
    data = path.read_text().split('id="data">')[1].split("</script>")[0]
    return dict(json.loads(data))


def test_a_page_keeps_to_its_budget(
    audit_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show: Any
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 3, 200, 200), np.uint8)
    x = torch.from_numpy(noise)
    site = {"pictures": pictures.from_inputs(x, torch.arange(60))}
    audit = audit_of(20)
    full = content_of(audit, site, tmp_path / "a.html")["rows"]
    assert all(full[str(row)]["large"] for row in range(20))
    monkeypatch.setattr(page_content, "BUDGET", 400_000)
    rows = content_of(audit, site, tmp_path / "b.html")["rows"]
    size = (tmp_path / "b.html").stat().st_size
    assert 400_000 < size < 700_000
    assert all(rows[str(row)]["picture"] for row in range(20)), "suspects have theirs first"
    assert "large" in rows["0"]
    assert "large" not in rows["19"]
    monkeypatch.setattr(page_content, "BUDGET", 40_000)
    page = show(20, site=site)
    assert "This picture is not in the page" in page.text("#card-19")
    page.keys("g")
    assert "No picture" in page.text("#card-19")


def test_nearest_and_typical_samples_are_beside_a_suspect(show: Any) -> None:
    features = torch.arange(100.0)[:, None].repeat(1, 2) ** torch.tensor([1.0, 0.5])
    page = show(60, site={"features": features})
    near = page.run("return suspects[0].near")
    assert [len(rows) for rows in near] == [3, 3]
    groups = page.each("#card-0 .group p", "e.textContent")
    assert groups == ["Most alike, labelled cat", "Most alike, labelled dog"]
    assert len(page.all("#card-0 .near img")) == 6
    page.click("#card-0 .near .picture")
    assert page.text("#viewer-words") == "An example."
    page.keys("a", "\ue00c")
    assert page.progress == "0 accepted, 0 kept, 0 skipped", "an example is not decided"
    page.keys("e")
    assert page.each("#classes h3", "e.textContent") == ["cat", "dog"]
    assert len(page.all("#classes img")) == 12
    page.keys("k")
    assert page.progress == "0 accepted, 0 kept, 0 skipped"


def test_without_features_classes_have_examples_all_the_same(show: Any) -> None:
    page = show()
    assert page.all(".near") == []
    page.keys("e")
    assert len(page.all("#classes img")) == 12


TEXT = "First line <b>\n\n  second line, indented\nقطة third"


def test_a_text_is_read_as_it_was_written(show: Any) -> None:
    features = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    words = {"pictures": pictures.no_picture, "words": lambda row: f"{row}: {TEXT}"}
    page = show(site={**words, "kind": "text", "features": features})
    assert page.one("#card-0 .features").text == f"0: {TEXT}"
    assert len(page.all("#card-0 .near .excerpt")) == 6
    page.keys("z", "g", "g", "a")
    assert page.progress == "1 accepted, 0 kept, 0 skipped"
    assert page.browser.get_log("browser") == []


def test_a_long_text_is_cut_and_says_so(show: Any) -> None:
    words = {"pictures": pictures.no_picture, "words": lambda _: "word " * 3_000}
    page = show(site=words)
    assert page.text("#card-0 .features").endswith("… (5,000 more characters)")


def test_a_row_of_a_table_stands_beside_its_nearest_ones(show: Any) -> None:
    x = torch.arange(200.0).reshape(100, 2)
    words = pictures.features(x, torch.arange(100), ("age", "heart rate"))
    site = {"pictures": pictures.no_picture, "words": words, "kind": "table", "features": x}
    page = show(site=site)
    head = page.each("#card-0 .values thead th", "e.textContent")
    assert head == ["value", "this row", "nearest cat", "nearest dog"]
    rows = page.each("#card-0 .values tbody tr", "[...e.children].map((c) => c.textContent)")
    assert [row[:2] for row in rows] == [["age", "0"], ["heart rate", "1"]]
    near = page.run("return suspects[0].near.map(([first]) => first)")
    assert rows[0][2:] == [str(2 * row) for row in near]


def test_other_issues_are_listed_by_kind(show: Any) -> None:
    twins = ("conflict", ("scan 3.png", "scan 4.png"), "Nearly the same, labels differ.")
    odd = [("outlier", (f"scan {i}.png",), "Unlike all others.") for i in range(12)]
    page = show(site={"other_issues": (twins, *odd, ("Unreadable", ("</b>x",), "No picture."))})
    summaries = page.each("#issues summary", "e.textContent")
    assert summaries == [
        "Nearly the same samples with different labels (1)",
        "Samples unlike all others (12)",
        "Unreadable (1)",
    ]
    page.click("#issues details:nth-child(2) summary")
    assert len(page.all("#issues details:nth-child(2) li")) == 10
    page.click("#issues details:nth-child(2) button.small")
    assert len(page.all("#issues details:nth-child(2) li")) == 12
    assert len(page.all("#issues details:first-child img")) == 2
    assert "</b>x" in page.text("#issues details:nth-child(3)")


def test_without_issues_there_is_no_such_part(show: Any) -> None:
    page = show(site={"pictures": picture})
    assert not page.one("#issues-part").is_displayed()
    assert not page.one("#issues-link").is_displayed()
