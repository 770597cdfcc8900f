"""Opinions that a site forms itself, of each sample without its label."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from flr.audit import audit
from flr.audit.evidence import Evidence
from flr.audit.heads import folds_of
from flr.audit.neighbours import nearest, neighbour_opinion
from flr.audit.out_of_sample import at_anchors, with_site_opinions
from flr.audit.scores import score
from flr.report.audit_truth import average_precision


def site(x: Tensor, given: Tensor, classes: int = 10) -> Evidence:
    names = [str(row) for row in range(len(given))]
    labels = tuple(map(str, range(classes)))
    return Evidence("ward", names, labels, given, {}, None, "From a test.", features=x)


def digits(n: int = 600, noise: float = 0.2, pair: bool = False) -> tuple[Evidence, Tensor]:
    """Images of digits as pixels, with labels that are wrong evenly or by one class."""
    rng = torch.Generator().manual_seed(0)
    x, y = load_digits(return_X_y=True)
    rows = torch.randperm(len(y), generator=rng)[:n]
    true = torch.from_numpy(y)[rows]
    struck = torch.rand(n, generator=rng) < noise
    step = 1 if pair else torch.randint(1, 10, (n,), generator=rng)
    given = torch.where(struck, (true + step) % 10, true)
    return site(torch.from_numpy(x)[rows].float(), given), true


@pytest.mark.parametrize("pair", [False, True])
def test_labels_and_features_are_enough(pair: bool) -> None:
    evidence, true = digits(pair=pair)
    told: list[float] = []
    opinions = with_site_opinions(evidence, lambda _what, share: told.append(share))
    found, errors = score(opinions), evidence.given != true
    assert set(opinions.views) == {"site", "neighbours"}
    assert float((found.issue == errors).double().mean()) > 0.94
    rate = audit(opinions, scores=found).rate.estimate
    assert rate == pytest.approx(float(errors.double().mean()), abs=0.04)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_class_that_is_mostly_given_as_another_one_is_seen_by_its_anchors() -> None:
    """Of the samples of class 1, three in five are called 0: nowhere is 1 the likeliest label."""
    rng = torch.Generator().manual_seed(2)
    true = torch.arange(4).repeat_interleave(100)
    x = 3.0 * torch.eye(4, 6)[true] + torch.randn(400, 6, generator=rng)
    given = torch.where((true == 1) & (torch.rand(400, generator=rng) < 0.6), 0, true)
    likely = torch.eye(4)[true] * 0.85 + 0.05
    likely[true == 1] = torch.tensor([0.55, 0.35, 0.05, 0.05])
    confusions = at_anchors(likely / likely.sum(1, keepdim=True), given)
    torch.testing.assert_close(confusions[1], torch.tensor([0.55, 0.35, 0.05, 0.05]).double())
    assert confusions[0].argmax() == 0
    wrong = score(with_site_opinions(site(x, given, 4))).wrong
    assert average_precision(wrong, given != true) > 0.8


def test_the_same_labels_give_the_same_opinions() -> None:
    evidence, _ = digits(200)
    first, second = (with_site_opinions(evidence).views["site"] for _ in range(2))
    assert torch.equal(first, second)


def test_no_opinion_on_a_sample_follows_its_own_label() -> None:
    """With features that say nothing, opinions must not foretell labels."""
    rng = torch.Generator().manual_seed(1)
    x, given = torch.randn(400, 30, generator=rng), torch.randint(0, 4, (400,), generator=rng)
    opinions = with_site_opinions(site(x, given, 4))
    for view in opinions.views.values():
        assert float((view.argmax(1) == given).double().mean()) < 0.35
    assert not audit(opinions).sure


@pytest.mark.parametrize("given", [[0], [0, 1], [2] * 30, [0] * 20 + [1] * 20 + [2]])
def test_few_samples_and_rare_classes(given: list[int]) -> None:
    rng = torch.Generator().manual_seed(0)
    evidence = site(torch.randn(len(given), 5, generator=rng), torch.tensor(given), 3)
    opinions = with_site_opinions(evidence)
    assert score(opinions).wrong.isfinite().all()
    assert not audit(opinions).sure


def test_a_class_with_one_label_is_not_called_wrong_for_that() -> None:
    evidence, _ = digits(noise=0.05)
    given = evidence.given.clone()
    given[0] = 10
    lone = with_site_opinions(replace(evidence, given=given, classes=(*evidence.classes, "ten")))
    assert float(score(lone).wrong[0]) < 0.5


def test_without_features_nothing_is_added() -> None:
    evidence, _ = digits(50)
    even = torch.full((50, 10), 0.1)
    known = replace(evidence, features=None, views={"model": even})
    assert with_site_opinions(known) is known


def test_folds_have_their_share_of_each_class() -> None:
    given = torch.tensor([0] * 50 + [1] * 10)
    fold = folds_of(given, 5, torch.Generator().manual_seed(0))
    assert fold[:50].bincount().tolist() == [10] * 5
    assert fold[50:].bincount().tolist() == [2] * 5


def test_neighbours_are_others() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    assert nearest(x, 1)[:, 0].tolist() == [1, 0, 3, 2]
    assert len(nearest(x, 9)[0]) == 3
    given = torch.tensor([0] * 10 + [1] * 10)
    apart = torch.cat([torch.randn(10, 2) + 9, torch.randn(10, 2) - 9])
    said = neighbour_opinion(apart, torch.nn.functional.one_hot(given), given)
    torch.testing.assert_close(said.sum(1), torch.ones(20))
    assert torch.equal(said.argmax(1), given)
