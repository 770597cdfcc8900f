"""Where the recorded goldens are; tests that need them skip, with the reason, where they are absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """Reads `../shared/golden/<name>.json`."""

    def read(name: str) -> Any:
        path = SHARED / "golden" / f"{name}.json"
        if not path.is_file():
            pytest.skip(f"the recorded goldens are not beside this checkout ({path})")
        return json.loads(path.read_text())

    return read
