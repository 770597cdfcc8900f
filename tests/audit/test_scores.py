"""The audit's scores on labels whose mistakes are known to the test."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.scores import at_home, blend, rate_by_federation, rule_of, score
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
    model = predictions(true, sure, rng)
    views = {"global": alike(model, rng), "local": alike(model, rng), "model": model}
    seen = torch.ones(n, dtype=torch.bool)
    return evidence(given, views, seen), true


def evidence(given: Tensor, views: dict[str, Tensor], visited: Tensor | None = None) -> Evidence:
    n, classes = views["model"].shape
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


def test_a_rule_of_swapped_classes_is_learned_and_helps() -> None:
    e, true = site(1000, 0.6, sure=2.0, swap=True)
    views = {"model": e.views["model"]}
    plain = 1 - views["model"].gather(1, e.given[:, None])[:, 0]
    found = score(evidence(e.given, views))
    assert precision(found.wrong, e, true) > precision(plain, e, true) + 0.1
    assert rule_of(evidence(e.given, views)) is not None
    swapped = (e.given == 1) & (true == 0)
    assert (found.suggested[swapped] == 0).double().mean() > 0.9


@pytest.mark.parametrize("sure", [0.7, 1.5, 3.0])
def test_even_mistakes_are_no_rule(sure: float) -> None:
    e, _ = site(250, 0.3, sure=sure)
    assert rule_of(e) is None


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
    sites = [site(250, noise, sure=2.0, seed=3) for noise in (0.05, 0.6)]
    e = [s[0] for s in sites]
    errors = torch.cat([s[0].given != s[1] for s in sites]).numpy()
    plain = torch.cat([1 - blend(s).gather(1, s.given[:, None])[:, 0] for s in e]).numpy()
    ours = torch.cat([score(s).wrong for s in e]).numpy()
    assert average_precision_score(errors, ours) > average_precision_score(errors, plain)


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
    views = {name: view.clone() for name, view in e.views.items()}
    views["global"][:50], views["local"][:50] = float("nan"), 0.0
    found = score(evidence(e.given, views, seen))
    assert found.wrong.isfinite().all()
    views["global"][:50] = views["local"][:50] = views["model"][:50]
    torch.testing.assert_close(found.wrong, score(evidence(e.given, views, seen.fill_(True))).wrong)
    seen[:50], views["global"][:50] = False, float("nan")
    torch.testing.assert_close(
        blend(evidence(e.given, views, seen))[:50].float(), views["model"][:50]
    )


def test_weights_count_like_repeated_samples() -> None:
    e, _ = site(200, sure=2.0)
    q, weights = e.views["model"].double(), torch.ones(200, dtype=torch.float64)
    weights[:40] = 3.0
    thrice = torch.cat([torch.arange(200), torch.arange(40), torch.arange(40)])
    again = rate_by_federation(q[thrice], e.given[thrice])
    assert rate_by_federation(q, e.given, weights=weights) == pytest.approx(again, abs=1e-9)


def test_equal_views_are_one_prediction() -> None:
    e, _ = site()
    model = e.views["model"]
    thrice = evidence(e.given, dict.fromkeys(("global", "local", "model"), model), e.visited)
    once = evidence(e.given, {"model": model})
    torch.testing.assert_close(score(thrice).wrong, score(once).wrong)


def test_even_shares_change_nothing_and_a_missing_class_is_not_impossible() -> None:
    q = torch.rand(12, CLASSES, dtype=torch.float64)
    q = q / q.sum(1, keepdim=True)
    even = torch.arange(12) % CLASSES
    torch.testing.assert_close(at_home(q, even), q)
    one = torch.full((12,), 4)
    at_one = at_home(q, one)
    assert (at_one[:, 4] > q[:, 4]).all()
    assert (at_one > 0.3 * q).all()


@pytest.mark.parametrize("trained", [True, False])
def test_a_site_with_one_class_is_not_called_clean(trained: bool) -> None:
    """Nor is "all is given as this class" taken for a rule that makes most labels wrong."""
    rng = torch.Generator().manual_seed(1)
    true = torch.where(torch.arange(300) < 30, torch.arange(300) % 5 + 1, 0)
    e = evidence(torch.zeros(300, dtype=torch.int64), {"model": predictions(true, 3.0, rng)})
    found = score(replace(e, trained=trained))
    assert precision(found.wrong, e, true) > 0.9
    assert 0.03 < float(found.wrong.mean()) < 0.2


def test_a_model_that_never_saw_the_labels_is_taken_at_its_word() -> None:
    for sure in (1.5, 2.0, 3.0):
        e, true = site(600, 0.1, sure=sure)
        wrong = score(replace(e, trained=False)).wrong
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


def test_a_model_that_always_says_the_same_accuses_nobody() -> None:
    e, _ = site()
    same = torch.full((len(e), CLASSES), 1e-4)
    same[:, 3] = 1 - 1e-4 * (CLASSES - 1)
    wrong = score(evidence(e.given, {"model": same})).wrong
    assert float(wrong.mean()) == pytest.approx(noise_model.UNKNOWN, abs=1e-3)


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
    with pytest.raises(DataError, match='view "model"'):
        Evidence("w", e.names, e.classes, e.given, {"local": e.views["local"]}, None, "")
