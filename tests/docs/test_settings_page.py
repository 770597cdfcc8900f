"""docs/results/settings.md is what its script writes from what was found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from flr.config import parse

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("settings_page", RESULTS / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_of_the_kept_numbers(script):
    found = json.loads(script.FOUND.read_text())
    assert script.PAGE.read_text() == script.page(found)


def test_no_method_had_more_than_four_settings_and_all_exist(script):
    for method, tried in script.TRIED.items():
        assert len(tried) <= 4, method
        for options in tried:
            parse(
                {
                    **script.SETTING,
                    "data": {"name": "cifar10"},
                    "method": [{"name": method, **options}],
                }
            )
