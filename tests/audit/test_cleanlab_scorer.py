"""cleanlab's scores, as cleanlab gives them."""

from __future__ import annotations

import sys

import pytest
import torch
from cleanlab.rank import get_label_quality_scores

from flr.audit.scores import Quality, cleanlab_scores
from flr.core.errors import ConfigError


def predictions() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    p = torch.randn(80, 5, generator=rng).mul(2).softmax(1)
    return torch.randint(0, 5, (80,), generator=rng), p


@pytest.mark.parametrize(
    "quality", ["self_confidence", "normalized_margin", "confidence_weighted_entropy"]
)
def test_the_order_is_cleanlabs(quality: Quality) -> None:
    given, p = predictions()
    found = cleanlab_scores(given, p, quality=quality)
    theirs = get_label_quality_scores(given.numpy(), p.double().numpy(), method=quality)
    assert found.wrong.numpy() == pytest.approx(1 - theirs, abs=1e-5)


def test_the_suggestion_is_the_likeliest_other_class() -> None:
    given, p = predictions()
    found = cleanlab_scores(given, p)
    assert (found.suggested != given).all()
    torch.testing.assert_close(found.confidence, p.scatter(1, given[:, None], 0).max(1).values)


def test_rows_may_sum_to_one_roughly() -> None:
    given, p = predictions()
    assert cleanlab_scores(given, p.half().float() * 1.001).wrong.isfinite().all()


def test_labels_of_one_class_only() -> None:
    _, p = predictions()
    found = cleanlab_scores(torch.zeros(80, dtype=torch.int64), p)
    torch.testing.assert_close(found.wrong, 1 - p[:, 0])


def test_without_cleanlab_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    with pytest.raises(ConfigError, match=r"pip install .flr\[audit\]"):
        cleanlab_scores(*predictions())
