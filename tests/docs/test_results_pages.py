"""The pages of results, and the README's table, are what `flr reproduce --pages` writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flr.paper import pages
from flr.paper.claims import stated
from flr.paper.experiment import OVER, claims_of, names, papers_order
from flr.paper.pages import claims, headline, overview
from flr.study import results


@pytest.fixture(scope="module")
def found(root):
    return pages.gather(root / "results")


@pytest.fixture(scope="module")
def scaled(found):
    return stated.at_scales(stated.stated(), found)


def test_the_page_of_claims_is_of_the_kept_cells(root, found, scaled):
    assert (root / "results" / claims.PAGE).read_text() == claims.text(found, scaled)
    assert (root / "results" / claims.DATA).read_text() == claims.data(scaled)


def test_the_file_of_claims_has_every_claim_at_every_scale_once(root, scaled):
    told = json.loads((root / "results" / claims.DATA).read_text())
    assert len({(each["claim"], each["scale"]) for each in told}) == len(told)
    at = {scale: [each for each in told if each["scale"] == scale] for scale in OVER}
    papers = {scale: sum(not each["ours"] for each in at[scale]) for scale in OVER}
    assert (papers["laptop"], papers["features"]) == (43, 43)
    for each in told:
        assert each["verdict"] in ("holds", "does not hold", "undecided")
        assert set(each["effect"]) == {"mean", "low", "high"}
        undone = each["why"] == "not run" or "seed" in each["why"]
        assert undone == (each["effect"]["low"] is None)
        assert undone <= (each["verdict"] == "undecided")
        assert bool(each["places"]) == (each["why"] != "not run")
        for place in each["places"]:
            assert place["verdict"] in ("holds", "does not hold", "undecided")
            assert (place["low"] is None) == undone


def test_a_failed_claim_without_a_note_of_its_scale_is_not_looked_into_yet(found, scaled):
    failed = next(each for each in scaled if each.judged.verdict == "does not hold")
    section = claims.text(found, [failed]).partition("## Where we disagree")[2]
    assert failed.claim.notes[failed.scale] in section
    bare = replace(failed, claim=replace(failed.claim, notes={"paper": "elsewhere"}))
    section = claims.text(found, [bare]).partition("## Where we disagree")[2]
    assert claims.LATER in section


def test_every_claim_of_every_experiment_is_on_the_page_of_claims(found):
    tested = [(where, what) for claim in stated.stated() for where, what in claim.tests]
    for name, each in found["features"].items():
        for claim in claims_of(each.experiment):
            begins = [says for where, says in tested if where == name]
            assert any(claim.says.strip().startswith(says) for says in begins), (name, claim.says)


def test_the_page_of_results_is_of_the_kept_cells(root, found):
    assert (root / "results" / overview.PAGE).read_text() == overview.text(found)
    assert sorted(papers_order()) == names()


def test_the_readmes_table_is_of_what_was_measured(root, found):
    table = headline.table(headline.common(found["laptop"][headline.EXPERIMENT]))
    assert table in (root / "README.md").read_text()


def test_no_cell_is_of_no_experiment(root, found):
    known = set()
    for each in (each for scale in found.values() for each in scale.values()):
        before = each.runner.pretraining(each.experiment)
        known |= {results.hash_of(config) for config in (*each.configs.values(), before) if config}
    assert set(results.names(root / "results")) <= known


def test_all_pages_are_written_wherever_the_cells_are(tmp_path, root):
    (tmp_path / "cells").symlink_to(root / "results" / "cells")
    written = pages.write_all(tmp_path)
    name = "table-memorization-laptop/table.md"
    pages_over_all = (overview.PAGE, claims.PAGE, claims.DATA, claims.PICTURE)
    assert {tmp_path / each for each in (*pages_over_all, name)} <= set(written)
    assert (tmp_path / claims.PICTURE).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / name).read_text() == (root / "results" / name).read_text()
    assert headline.BEGIN not in (tmp_path / overview.PAGE).read_text()
