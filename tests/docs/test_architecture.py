"""architecture.md names every room; its layers are those of the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "flr"


def contract(number: int) -> list[str]:
    """The layers of an import contract, without the package's name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = settings["tool"]["importlinter"]["contracts"][number]["layers"]
    return [re.sub(r"flr\.(core\.)?", "", layer) for layer in found]


def test_the_layers_are_those_of_the_import_contract():
    listed = re.search(r"```text\n(cli\n.*?)```", PAGE, re.S)
    assert listed is not None
    assert listed[1].split("\n")[:-1] == contract(0)


def test_the_order_of_the_lowest_layer_is_that_of_its_contract():
    sentence = re.search(r"order of its own: (.*)\.", PAGE)
    assert sentence is not None
    assert re.findall(r"`([^`]+)`", sentence[1]) == contract(1)
    modules = {path.stem for path in (SOURCE / "core").glob("*.py")} - {"__init__"}
    assert {name for layer in contract(1) for name in layer.split(" | ")} == modules


def test_every_room_is_on_the_page_and_in_a_layer():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert sorted(rows) == sorted(rooms)
    assert {name for layer in contract(0) for name in layer.split(" | ")} == rooms


def test_every_module_that_a_room_s_row_names_is_there():
    for room, row in re.findall(r"^\| `(\w+)` \|(.*)$", PAGE, re.M):
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", row):
            assert (SOURCE / room / name).exists(), f"{room}: {name}"
