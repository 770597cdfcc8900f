"""docs/results/README.md and claims.md are what their scripts write from the kept cells."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RESULTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_claims_is_of_the_kept_cells():
    found = script("claims_page")
    assert found.PAGE.read_text() == found.text(found.outcomes())


def test_every_claim_of_every_experiment_is_on_the_page_of_claims():
    found = script("claims_page")
    tested = [(where, what) for tests in found.STATED.values() for where, what in tests]
    for name, outcome in found.outcomes().items():
        for claim in outcome.experiment.claims:
            begins = [says for where, says in tested if where == name]
            assert any(claim.says.strip().startswith(says) for says in begins), (name, claim.says)


def test_the_page_of_results_is_of_the_kept_cells():
    found = script("results_page")
    assert found.PAGE.read_text() == found.text()


def test_the_readmes_table_is_of_what_was_measured():
    found = script("headline")
    assert found.table(found.longer()) in found.README.read_text()
