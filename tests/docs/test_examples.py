"""What the documentation prints works: links, configs, Python examples, run folders."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import torch

from flr.config import parse
from flr.config import policy as policies

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "docs" / "_build"  # what `make docs` leaves
DOCS = sorted(p for p in (ROOT / "docs").rglob("*.md") if BUILT not in p.parents)
OTHERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
PAGES = [*DOCS, *sorted((ROOT / "results").glob("*.md")), *(ROOT / name for name in OTHERS)]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def anchors(page: Path) -> set[str]:
    """The names that headings get, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index(root):
    index = (root / "docs" / "README.md").read_text()
    for page in DOCS:
        name = page.relative_to(root / "docs").as_posix()
        assert name == "README.md" or f"({name})" in index, name


@pytest.mark.parametrize("name", NAMES)
def test_configs_are_valid(name, blocks, tmp_path):
    for text in blocks(name, "toml"):
        tree = tomllib.loads(text)
        if name == "docs/how-to/guard-a-site.md":
            (tmp_path / policies.NAME).write_text(text)
            assert policies.load(tmp_path / policies.NAME).methods
        elif "grid" in tree:  # a study, which test_compare_methods.py follows
            assert name == "docs/how-to/compare-methods.md"
        elif "project" not in tree:
            parse({"rounds": 100, **tree}, source=name)


OWN_DATA = "how-to/use-your-own-data.md"
PYTHON = [
    "how-to/use-the-regulariser.md",
    OWN_DATA,
    "how-to/use-a-pretrained-network.md",
    "coming-from/cleanlab.md",
    "coming-from/flower.md",
]


@pytest.mark.parametrize("page", PYTHON)
def test_python_examples_run(page, blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(f"docs/{page}", "python")
    assert found
    namespace: dict[str, object] = {"__name__": "example"}
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]):
            for number, code in enumerate(found):
                source = compile(code, f"{page}, block {number}", "exec", dont_inherit=True)
                exec(source, namespace)  # noqa: S102
    finally:
        torch.set_num_threads(threads)
    if page == OWN_DATA:
        read_the_data_of_its_configs(blocks(f"docs/{page}", "toml"))


def read_the_data_of_its_configs(configs: list[str]) -> None:
    from flr.simulation import api

    for text in configs:
        config = parse(tomllib.loads(text))
        dataset = api.load_data(config)
        assert len(dataset.classes) == 10
        api.load_scenario(config, dataset)
