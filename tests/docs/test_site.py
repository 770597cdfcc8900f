"""The site of the documentation: built once, with warnings as errors, then looked through."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LOADS = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}


class Links(HTMLParser):
    """What a page links to, what it loads, and its own anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        self.anchors |= {held[name] for name in ("id", "name") if name in held}
        if tag == "a" and "href" in held:
            self.links.append(held["href"])
        if tag in LOADS and held.get(LOADS[tag]):
            self.loads.append(held[LOADS[tag]])


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once for all workers: notebooks are executed, samples are run."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    out = root / "site"
    with FileLock(root / "site.lock"):
        if not (root / "site.log").exists():
            command = ["-q", "-W", "--keep-going", "-c", "docs", "-d", f"{root}/doctrees"]
            cache = ["-D", f"nb_execution_cache_path={root}/notebooks"]
            done = subprocess.run(
                [sys.executable, "-m", "sphinx", *command, *cache, ".", str(out)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            )
            (root / "site.log").write_text(f"{done.returncode}\n{done.stdout}{done.stderr}")
    code, _, said = (root / "site.log").read_text().partition("\n")
    assert code == "0", said
    return out


@pytest.fixture(scope="session")
def pages(site) -> dict[Path, Links]:
    """Every page of the site but the samples, which other tests look at."""
    paths = [path for path in site.rglob("*.html") if "samples" not in path.parts]
    assert len(paths) > 50
    return {path: Links(path.read_text(encoding="utf-8")) for path in paths}


def test_every_link_inside_leads_somewhere(pages, site):
    broken = []
    for path, page in pages.items():
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            inside = target.is_relative_to(site.resolve()) and target.is_file()
            known = {"", *pages[target].anchors} if target in pages else {unquote(parts.fragment)}
            if not inside or unquote(parts.fragment) not in known:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages, site):
    for path, page in pages.items():
        assert not [url for url in page.loads if urlsplit(url).netloc], path
    for path in (site / "_static").rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", path.read_text()), path


def test_the_address_of_the_site_leads_to_the_three_doors(pages, site):
    first = site / "docs" / "README.html"
    assert pages[site / "index.html"].links == ["./docs/README.html"]
    doors = {link for link in pages[first].links if link.startswith("start/")}
    assert doors == {f"start/{path.stem}.html" for path in (ROOT / "docs" / "start").glob("*.md")}
    assert len(doors) == 3


def test_words_of_all_pages_can_be_searched_without_a_server(site):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", text, re.S)[1])
    assert {"docs/reference/api", "results/README", "docs/faq"} <= set(index["docnames"])
    assert "ledger" in index["terms"]


def test_the_gallery_has_every_picture_with_a_command(site):
    text = (site / "docs" / "gallery.html").read_text(encoding="utf-8")
    pictures = sorted((ROOT / "results").rglob("*.png"))
    assert text.count("<img") >= len(pictures)
    said = re.sub(r"<[^>]+>", "", text)
    for folder in {path.parent for path in pictures} - {ROOT / "results"}:
        name = re.sub(r"-(laptop|features|middle)$", "", folder.name)
        assert f"flr reproduce {name}" in said


def test_samples_are_there_and_need_no_other_file(site):
    text = (site / "docs" / "samples.html").read_text(encoding="utf-8")
    linked = {link for link in Links(text).links if "samples/" in link and link.endswith(".html")}
    found = {link for link in linked if (site / "docs" / link).resolve().is_file()}
    assert {Path(link).name for link in found} == {"index.html", "report.html", "audit.html"}
    assert len(found) == 4
    for link in found:
        loads = Links((site / "docs" / link).read_text(encoding="utf-8")).loads
        assert all(url.startswith("data:") for url in loads), link


def test_every_public_name_is_documented_from_its_docstring(pages, site):
    import flr

    anchors = pages[site / "docs" / "reference" / "api.html"].anchors
    assert {f"flr.{name}" for name in flr.__all__} <= anchors


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_executed_and_kept_without_outputs(path, site):
    book = nbformat.read(path, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    shown = (site / "docs" / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
    assert shown.count('class="cell_input') == len(cells)
    assert 'class="cell_output' in shown


def test_building_leaves_nothing_beside_the_notebooks(site):
    assert {path.suffix for path in (ROOT / "docs" / "notebooks").iterdir()} == {".ipynb"}
