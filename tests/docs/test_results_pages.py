"""The pages of results, and the README's table, are what `flr reproduce --pages` writes."""

from __future__ import annotations

import pytest

from flr.paper import pages
from flr.paper.experiment import names, papers_order
from flr.paper.pages import claims, headline, overview


@pytest.fixture(scope="module")
def found(root):
    return pages.gather(root / "results")


def test_the_page_of_claims_is_of_the_kept_cells(root, found):
    assert (root / "results" / claims.PAGE).read_text() == claims.text(found)


def test_every_claim_of_every_experiment_is_on_the_page_of_claims(found):
    tested = [(where, what) for claim in claims.stated() for where, what in claim.tests]
    for name, results in found.items():
        for claim in results.experiment.claims:
            begins = [says for where, says in tested if where == name]
            assert any(claim.says.strip().startswith(says) for says in begins), (name, claim.says)


def test_the_page_of_results_is_of_the_kept_cells(root, found):
    assert (root / "results" / overview.PAGE).read_text() == overview.text(found.values())
    assert sorted(papers_order()) == names()


def test_the_readmes_table_is_of_what_was_measured(root, found):
    table = headline.table(headline.common(found[headline.EXPERIMENT]))
    assert table in (root / "README.md").read_text()


def test_all_pages_are_written_wherever_the_cells_are(tmp_path, root):
    (tmp_path / "cells").symlink_to(root / "results" / "cells")
    written = pages.write_all(tmp_path)
    name = "table-memorization-laptop/table.md"
    assert {tmp_path / each for each in (overview.PAGE, claims.PAGE, name)} <= set(written)
    assert (tmp_path / name).read_text() == (root / "results" / name).read_text()
    assert headline.BEGIN not in (tmp_path / overview.PAGE).read_text()
