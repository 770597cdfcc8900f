"""From scores to findings: what a person reads, and the files that carry it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit, write
from flr.core.errors import ConfigError
from flr.core.plain_text import from_cell

CLASSES = ("cat", "dog", 'a "fox", red', "<b>owl</b>")


def site(n: int = 300, noise: float = 0.25, *, tables: bool = True) -> tuple[Evidence, Tensor]:
    """A site whose wrong labels are cats called dogs, and its true labels."""
    rng = torch.Generator().manual_seed(0)
    true = torch.randint(0, len(CLASSES), (n,), generator=rng)
    struck = (true == 0) & (torch.rand(n, generator=rng) < 4 * noise)
    features = torch.randn(n, len(CLASSES), generator=rng)
    features[torch.arange(n), true] += 3
    model = (3 * features).softmax(1)
    near = [(model.log() + torch.randn(model.shape, generator=rng)).softmax(1) for _ in range(2)]
    views = {"site": model}
    if tables:
        views |= {"global": near[0], "local": near[1]}
    given = torch.where(struck, 1, true)
    seen = torch.ones(n, dtype=torch.bool) if tables else None
    names = [f"{row}.png" for row in range(n)]
    return Evidence("ward", names, CLASSES, given, views, seen, "From a test."), true


@pytest.fixture(scope="module")
def known() -> tuple[Evidence, Tensor, Audit]:
    evidence, true = site()
    return evidence, true, audit(evidence)


def test_the_rates_come_with_intervals_that_hold_the_truth(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    evidence, true, found = known
    errors = evidence.given != true
    assert found.rate.low <= float(errors.double().mean()) <= found.rate.high
    dogs = next(rate for rate in found.per_class if rate.name == "dog")
    assert dogs.labels == int((evidence.given == 1).sum())
    assert dogs.wrong.low <= float(errors[evidence.given == 1].double().mean()) <= dogs.wrong.high
    for rate in [found.rate, *(c.wrong for c in found.per_class), *(p.rate for p in found.pairs)]:
        assert 0 <= rate.low <= rate.estimate <= rate.high <= 1


def test_the_first_pair_is_the_mistake_that_was_made(known: tuple[Evidence, Tensor, Audit]) -> None:
    evidence, true, found = known
    first, made = found.pairs[0], int((evidence.given != true).sum())
    assert (first.given, first.likely) == ("dog", "cat")
    assert first.count == pytest.approx(made, rel=0.25)
    assert first.rate.estimate == pytest.approx(first.count / int((evidence.given == 1).sum()))
    assert sum(pair.count for pair in found.pairs) <= len(evidence) * found.rate.estimate + 1e-3


def test_suspects_come_most_probable_first_and_are_all_there(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    evidence, _, found = known
    listed = [suspect.probability for suspect in found.suspects]
    assert listed == sorted(listed, reverse=True)
    assert len(listed) >= 50
    first = found.suspects[0]
    assert first.name == evidence.names[first.row]
    assert first.given == CLASSES[int(evidence.given[first.row])]


def test_the_budget_counts_what_is_found_in_that_order(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    _, _, found = known
    reviewed, expected = zip(*found.budget, strict=True)
    assert list(reviewed) == sorted(set(reviewed))
    assert reviewed[-1] == found.samples
    assert expected[0] == pytest.approx(found.suspects[0].probability)
    assert expected[-1] == pytest.approx(found.rate.estimate * found.samples, rel=1e-3)
    gains = [b - a for a, b in pairwise(expected)]
    steps = [b - a for a, b in pairwise(reviewed)]
    each = [gain / step for gain, step in zip(gains, steps, strict=True)]
    assert all(a >= b - 1e-6 for a, b in pairwise(each))


def test_a_reason_names_score_votes_and_the_labels_share(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    _, _, found = known
    suspect = next(s for s in found.suspects if s.agree and s.suggested == "cat")
    assert suspect.reason.startswith("The site's own models, trained without this sample")
    assert "the federation in training and this site's model in training say “cat”" in (
        suspect.reason
    )
    assert "“dog” gets less than 1 %" in suspect.reason
    assert f"{100 * suspect.probability:.0f} %" in suspect.reason or suspect.probability > 0.995
    split = next(s for s in found.suspects if s.agree is False)
    assert split.reason.count("“") > 2


def test_a_label_that_is_not_flagged_says_why() -> None:
    found = audit(site(noise=0.05)[0])
    calm = [s for s in found.suspects if s.probability < 0.5]
    assert calm
    assert all("not the 50 % of a suspect" in suspect.reason for suspect in calm)


def test_without_tables_there_is_one_view() -> None:
    evidence, _ = site(tables=False)
    found = audit(evidence)
    assert {suspect.agree for suspect in found.suspects} == {None}
    assert all(" say " not in suspect.reason for suspect in found.suspects)


def test_samples_that_were_never_visited_are_named(known: tuple[Evidence, Tensor, Audit]) -> None:
    evidence, _, _ = known
    seen = torch.ones(len(evidence), dtype=torch.bool)
    seen[:7] = False
    found = audit(replace(evidence, visited=seen))
    assert any("not visited 7 of 300 samples" in sentence for sentence in found.unchecked)
    assert all(s.agree is None for s in found.suspects if s.row < 7)


def test_memorization_is_admitted_only_where_it_can_be(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    evidence, _, found = known
    assert any("trained on these labels" in sentence for sentence in found.unchecked)
    fresh = audit(replace(evidence, views={"site": evidence.views["site"]}))
    assert not any("trained on these labels" in sentence for sentence in fresh.unchecked)


def without_knowledge(kind: str, evidence: Evidence) -> Evidence:
    rng = torch.Generator().manual_seed(0)
    model = evidence.views["site"]
    if kind == "trained":
        return replace(evidence, views={"model": model})
    if kind == "constant":
        model = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).repeat(len(evidence), 1)
    if kind == "shuffled":
        model = model[torch.randperm(len(evidence), generator=rng)]
    if kind == "repeats":
        model = torch.nn.functional.one_hot(evidence.given, len(CLASSES)).float()
    return replace(evidence, views={"model": model}, trained=False)


@pytest.mark.parametrize("kind", ["trained", "constant", "shuffled", "repeats"])
def test_an_audit_that_cannot_know_says_so(kind: str) -> None:
    found = audit(without_knowledge(kind, site(tables=False)[0]))
    assert not found.sure
    assert "cannot be said" in found.verdict
    assert found.rate.high - found.rate.low > 0.9


def test_of_a_few_labels_no_share_is_told() -> None:
    assert not audit(site(40, tables=False)[0]).sure
    assert audit(site(300, tables=False)[0]).sure


def test_cleanlab_is_another_scorer_on_the_same_probabilities(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    evidence, true, ours = known
    found = audit(evidence, scorer="cleanlab")
    assert found.scorer == "cleanlab"
    assert found.key != ours.key
    wrong = {row for row in range(len(true)) if evidence.given[row] != true[row]}
    assert len({s.row for s in found.suspects[:20]} & wrong) > 10
    with pytest.raises(ConfigError, match="cleanlab"):
        audit(evidence, scorer="cleanlap")


def test_the_key_changes_with_labels_names_and_findings(
    known: tuple[Evidence, Tensor, Audit],
) -> None:
    evidence, _, found = known
    assert audit(evidence) == found
    other = evidence.given.clone()
    other[0] = (other[0] + 1) % len(CLASSES)
    names = ["else.png", *evidence.names[1:]]
    changed = [replace(evidence, given=other), replace(evidence, names=names)]
    assert len({found.key, *(audit(each).key for each in changed)}) == 3


def test_the_files_hold_what_was_found_and_any_name(
    known: tuple[Evidence, Tensor, Audit], tmp_path: Path
) -> None:
    evidence, _, _ = known
    names = [f'=cmd()|{name}, "b"\nc' for name in evidence.names]
    found = audit(replace(evidence, names=names))
    write(found, tmp_path)
    with (tmp_path / "suspects.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row["name"].startswith("'=cmd()|") for row in rows)  # no spreadsheet runs it
    assert [from_cell(row["name"]) for row in rows] == [suspect.name for suspect in found.suspects]
    assert [row["given"] for row in rows] == [suspect.given for suspect in found.suspects]
    assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
    kept = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert kept["key"] == found.key
    assert kept["classes"] == list(CLASSES)
    assert len(kept["suspects"]) == len(found.suspects)


@pytest.mark.parametrize("n", [1, 3])
def test_a_handful_of_labels_can_be_audited(n: int) -> None:
    evidence, _ = site()
    few = Evidence(
        "ward",
        evidence.names[:n],
        CLASSES,
        evidence.given[:n],
        {name: view[:n] for name, view in evidence.views.items()},
        torch.ones(n, dtype=torch.bool),
        "From a test.",
    )
    found = audit(few)
    assert len(found.suspects) == n
    assert any("fewer than 5 labels" in sentence for sentence in found.unchecked)
