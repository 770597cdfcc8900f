"""What the tests of several backbones use."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def no_packages(monkeypatch):
    """No package with weights can be found any more."""
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)  # a test compares with its code
    monkeypatch.setattr(sys, "path", [])
    sys.path_importer_cache.clear()


@pytest.fixture
def copy_of(tmp_path, monkeypatch) -> Callable[[str, str], Path]:
    """Copies a folder of an installed package into one that is found instead."""

    def copy(package: str, folder: str) -> Path:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        place = tmp_path / "site" / package / folder
        shutil.copytree(Path(spec.submodule_search_locations[0]) / folder, place)
        (tmp_path / "site" / package / "__init__.py").write_text("1 / 0")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        return place

    return copy
