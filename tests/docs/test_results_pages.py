"""docs/results/README.md and claims.md are what their scripts write from the kept cells."""

from __future__ import annotations


def test_the_page_of_claims_is_of_the_kept_cells(results_script):
    found = results_script("claims_page")
    assert found.PAGE.read_text() == found.text(found.outcomes())


def test_every_claim_of_every_experiment_is_on_the_page_of_claims(results_script):
    found = results_script("claims_page")
    stated = found.STATED
    tested = [(where, what) for claim in stated for where, what in claim.tests]
    for name, outcome in found.outcomes().items():
        for claim in outcome.experiment.claims:
            begins = [says for where, says in tested if where == name]
            assert any(claim.says.strip().startswith(says) for says in begins), (name, claim.says)


def test_the_page_of_results_is_of_the_kept_cells(results_script):
    found = results_script("results_page")
    assert found.PAGE.read_text() == found.text()


def test_the_readmes_table_is_of_what_was_measured(results_script):
    found = results_script("headline")
    assert found.table(found.longer()) in found.README.read_text()
