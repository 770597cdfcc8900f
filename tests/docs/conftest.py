"""The pages of the documentation, their fenced blocks, and the scripts that write results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def blocks() -> Callable[[str, str], list[str]]:
    """The fenced blocks of one language on one page, in order."""

    def read(page: str, language: str) -> list[str]:
        text = (ROOT / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)

    return read


@pytest.fixture(scope="session")
def tables() -> Callable[[str], dict[str, dict[str, list[str]]]]:
    """heading -> first cell in backticks -> the other cells, for every table of a page."""

    def read(page: str) -> dict[str, dict[str, list[str]]]:
        found: dict[str, dict[str, list[str]]] = {}
        heading = ""
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ").replace("`", "")
                found.setdefault(heading, {})
            elif match := re.match(r"\| `([^`]+)` \|(.*)\|$", line):
                cells = [cell.strip() for cell in match[2].split(" | ")]
                found[heading][match[1]] = cells
        return found

    return read
