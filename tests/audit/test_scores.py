"""The audit's scores on labels whose mistakes are known to the test."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.audit.scores import at_home, blend, fitted, score
from flr.core.errors import DataError

CLASSES = 6


def predictions(true: Tensor, sure: float, rng: torch.Generator, classes: int = CLASSES) -> Tensor:
    """Calibrated predictions: by Bayes, of normal features whose means are `sure` apart."""
    features = torch.randn(len(true), classes, generator=rng)
    features[torch.arange(len(true)), true] += sure
    return (sure * features).softmax(1)


def alike(p: Tensor, rng: torch.Generator) -> Tensor:
    """Other predictions of the same samples, by a model that has seen much the same."""
    return (p.log() + 0.5 * torch.randn(p.shape, generator=rng)).softmax(1)


def site(
    n: int = 400, noise: float = 0.3, *, sure: float = 3.0, swap: bool = False, seed: int = 0
) -> tuple[Evidence, Tensor]:
    """Evidence of a site with wrong labels, and its true labels; `swap`: class 0 is given as 1."""
    rng = torch.Generator().manual_seed(seed)
    true = torch.randint(0, CLASSES, (n,), generator=rng)
    struck = torch.rand(n, generator=rng) < noise
    drawn = (true + torch.randint(1, CLASSES, (n,), generator=rng)) % CLASSES
    if swap:
        struck, drawn = struck & (true == 0), torch.ones_like(true)
    given = torch.where(struck, drawn, true)
    own = predictions(true, sure, rng)
    views = {"site": own, "global": alike(own, rng), "local": alike(own, rng), "model": own}
    seen = torch.ones(n, dtype=torch.bool)
    return evidence(given, views, seen), true


def evidence(given: Tensor, views: dict[str, Tensor], visited: Tensor | None = None) -> Evidence:
    n, classes = next(iter(views.values())).shape
    names = [f"{row}.png" for row in range(n)]
    labels = tuple(f"class {c}" for c in range(classes))
    return Evidence("ward", names, labels, given, views, visited, "From a test.")


def precision(wrong: Tensor, e: Evidence, true: Tensor) -> float:
    return float(average_precision_score((e.given != true).numpy(), wrong.numpy()))


@pytest.mark.parametrize("noise", [0.05, 0.3, 0.7])
def test_probabilities_find_and_count_the_wrong_labels(noise: float) -> None:
    e, true = site(noise=noise)
    found = score(e)
    errors = (e.given != true).double()
    assert precision(found.wrong, e, true) > 0.9
    assert float(found.wrong.mean()) == pytest.approx(float(errors.mean()), abs=0.06)
    assert float((found.wrong - errors).square().mean()) < 0.06  # Brier
    suggested = found.suggested[errors.bool()] == true[errors.bool()]
    assert float(suggested.double().mean()) > 0.75


def test_swapped_classes_are_learnt_and_help() -> None:
    e, true = site(1000, 0.6, sure=2.0, swap=True)
    views = {"site": e.views["site"]}
    plain = 1 - views["site"].gather(1, e.given[:, None])[:, 0]
    alone = evidence(e.given, views)
    found = score(alone)
    assert precision(found.wrong, e, true) > precision(plain, e, true) + 0.1
    learnt = fitted(alone)
    assert learnt is not None
    assert float(learnt.transition[0, 1]) == pytest.approx(0.6, abs=0.1)
    swapped = (e.given == 1) & (true == 0)
    assert (found.suggested[swapped] == 0).double().mean() > 0.9


@pytest.mark.parametrize("sure", [2.0, 3.0])
def test_even_mistakes_are_learnt_as_even(sure: float) -> None:
    learnt = fitted(site(1000, 0.3, sure=sure)[0])
    assert learnt is not None
    off = learnt.transition[~torch.eye(CLASSES, dtype=torch.bool)]
    assert float(off.max()) < 0.13


def test_the_shares_of_classes_at_a_site_help_where_they_are_unequal() -> None:
    """A class that is hardly ever given is hardly ever true."""
    rng = torch.Generator().manual_seed(5)
    true = torch.multinomial(
        torch.tensor([12.0, 6.0, 3.0, 1.0, 0.5, 0.5]), 600, True, generator=rng
    )
    struck = torch.rand(600, generator=rng) < 0.3
    drawn = (true + torch.randint(1, CLASSES, (600,), generator=rng)) % CLASSES
    e = evidence(torch.where(struck, drawn, true), {"model": predictions(true, 1.5, rng)})
    plain = 1 - e.views["model"].gather(1, e.given[:, None])[:, 0]
    assert precision(score(e).wrong, e, true) > precision(plain, e, true) + 0.05


def test_sites_with_more_wrong_labels_rank_above_others() -> None:
    sites = [site(400, noise, sure=2.5, seed=3) for noise in (0.05, 0.6)]
    found = [score(e).wrong for e, _ in sites]
    errors = torch.cat([e.given != true for e, true in sites])
    assert float(found[1].mean()) > float(found[0].mean()) + 0.3
    ranked = average_precision_score(errors.numpy(), torch.cat(found).numpy())
    apart = [precision(w, *one) for w, one in zip(found, sites, strict=True)]
    assert ranked > min(apart)


def test_scores_are_consistent_with_one_another() -> None:
    e, _ = site()
    found = score(e)
    own = found.posterior.gather(1, e.given[:, None])[:, 0]
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(len(e)))
    torch.testing.assert_close(1 - own, found.wrong, atol=1e-5, rtol=0)
    assert (found.suggested != e.given).all()
    assert (found.confidence <= found.wrong).all()
    best = found.posterior.scatter(1, e.given[:, None], -1).argmax(1)
    assert torch.equal(found.suggested, best)


def test_rows_that_were_never_visited_hold_nothing() -> None:
    e, _ = site()
    seen = torch.ones(len(e), dtype=torch.bool)
    seen[:50] = False
    views = {name: e.views[name].clone() for name in ("site", "global", "local")}
    views["global"][:50], views["local"][:50] = float("nan"), 0.0
    found = score(evidence(e.given, views, seen))
    alone = score(evidence(e.given, {"site": e.views["site"]}))
    assert found.wrong.isfinite().all()
    torch.testing.assert_close(found.wrong[:50], alone.wrong[:50])
    mixed = blend(evidence(e.given, views, seen))[:50].float()
    torch.testing.assert_close(mixed, views["site"][:50])


def test_a_model_that_has_memorized_changes_nothing() -> None:
    """It repeats every label, right or wrong, whatever else is known of them."""
    e, true = site(600, 0.3, sure=2.0)
    rng = torch.Generator().manual_seed(9)
    repeated = torch.nn.functional.one_hot(e.given, CLASSES) * 8 + torch.randn(
        600, CLASSES, generator=rng
    )
    alone = evidence(e.given, {"site": e.views["site"]})
    both = evidence(e.given, {"site": e.views["site"], "model": repeated.softmax(1)})
    before, after = score(alone).wrong, score(both).wrong
    assert precision(after, e, true) > precision(before, e, true) - 0.02
    assert float(after.mean()) == pytest.approx(float(before.mean()), abs=0.05)


def test_a_better_model_of_the_federation_helps_a_weak_site() -> None:
    e, true = site(600, 0.3, sure=1.2)
    rng = torch.Generator().manual_seed(8)
    strong = {"site": e.views["site"], "global": predictions(true, 3.0, rng)}
    seen = torch.ones(600, dtype=torch.bool)
    before = precision(score(evidence(e.given, {"site": e.views["site"]})).wrong, e, true)
    assert precision(score(evidence(e.given, strong, seen)).wrong, e, true) > before + 0.2


def test_class_shares_of_a_site_are_found_without_labels() -> None:
    rng = torch.Generator().manual_seed(3)
    true = (torch.rand(3000, generator=rng) < 0.1).long()
    q = predictions(true, 2.0, rng)
    found = at_home(q.double())
    assert float(found[:, 1].mean()) == pytest.approx(0.1, abs=0.02)
    assert float(found[:, 2:].sum(1).mean()) < 0.01


def test_a_site_with_one_class_is_not_called_clean() -> None:
    """Nor is "all is given as this class" taken for a rule that makes most labels wrong."""
    rng = torch.Generator().manual_seed(1)
    true = torch.where(torch.arange(300) < 30, torch.arange(300) % 5 + 1, 0)
    e = evidence(torch.zeros(300, dtype=torch.int64), {"model": predictions(true, 3.0, rng)})
    found = score(replace(e, trained=False))
    assert precision(found.wrong, e, true) > 0.9
    assert 0.03 < float(found.wrong.mean()) < 0.2


def test_a_model_that_never_saw_the_labels_is_taken_at_its_word() -> None:
    for sure in (2.5, 3.0):
        e, true = site(600, 0.1, sure=sure)
        model = {"model": e.views["model"]}
        wrong = score(replace(e, views=model, trained=False)).wrong
        assert float(wrong.mean()) == pytest.approx(
            float((e.given != true).double().mean()), abs=0.05
        )


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_handful_of_samples(n: int) -> None:
    e, _ = site(400)
    views = {name: view[:n] for name, view in e.views.items()}
    found = score(evidence(e.given[:n], views, torch.ones(n, dtype=torch.bool)))
    assert found.wrong.isfinite().all()
    assert ((found.wrong >= 0) & (found.wrong <= 1)).all()


def test_labels_of_one_class_only() -> None:
    rng = torch.Generator().manual_seed(0)
    true = torch.zeros(100, dtype=torch.int64)
    true[:10] = 2
    found = score(
        evidence(torch.zeros(100, dtype=torch.int64), {"model": predictions(true, 4, rng)})
    )
    assert set(found.wrong.argsort(descending=True)[:10].tolist()) == set(range(10))
    assert (found.suggested[:10] == 2).all()


def test_a_single_class_leaves_nothing_to_doubt() -> None:
    found = score(evidence(torch.zeros(7, dtype=torch.int64), {"model": torch.ones(7, 1)}))
    assert float(found.wrong.max()) < 1e-6


@pytest.mark.parametrize("classes", [50, 10_000])
def test_many_classes(classes: int) -> None:
    rng = torch.Generator().manual_seed(0)
    true = torch.randint(0, classes, (60,), generator=rng)
    given = true.clone()
    given[:12] = (given[:12] + 1) % classes
    found = score(evidence(given, {"model": predictions(true, 12.0, rng, classes)}))
    assert torch.equal(found.wrong > 0.5, given != true)
    assert torch.equal(found.suggested[:12], true[:12])
    assert float(found.confidence[:12].min()) > 0.5


@pytest.mark.parametrize("bad", [float("nan"), -0.5, 2.0])
def test_what_is_not_a_probability_is_refused(bad: float) -> None:
    e, _ = site()
    model = e.views["model"].clone()
    model[3, 2] = bad
    with pytest.raises(DataError, match=r"model.*1 of 400 rows"):
        evidence(e.given, {"model": model})


def test_what_does_not_fit_together_is_refused() -> None:
    e, _ = site()
    with pytest.raises(DataError, match="400 samples x 6 classes; got 400 x 5"):
        Evidence("w", e.names, e.classes, e.given, {"model": torch.ones(400, 5) / 5}, None, "")
    with pytest.raises(DataError, match="labels from 0 to 5"):
        evidence(e.given + 3, dict(e.views), e.visited)
    with pytest.raises(DataError, match="features or views among"):
        Evidence("w", e.names, e.classes, e.given, {}, None, "")
    with pytest.raises(DataError, match="features of 400 samples"):
        replace(e, features=torch.ones(3, 2))
    with pytest.raises(DataError, match="1 of 400 rows"):
        replace(e, features=torch.ones(400, 2).index_fill(0, torch.tensor([7]), torch.nan))
