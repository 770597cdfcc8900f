"""No site with many wrong labels is ever called clean, whatever models it is audited with.

`python -m pytest -m attack tests/audit/test_false_all_clear.py --tries 200` tries as many random
settings; otherwise there is a sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from flr.audit import Audit, audit
from flr.audit.evidence import Evidence
from flr.audit.out_of_sample import with_site_opinions

MODELS = ("weak", "overfitted", "constant", "shuffled", "adversarial", "none")
NOISES = ("even", "swapped", "resembling")


@dataclass(frozen=True)
class Setting:
    """A site, how its labels are wrong, and which model it is given."""

    number: int
    noise: str
    model: str
    classes: int
    samples: int
    rate: float
    apart: float  # of the classes' means, in standard deviations
    features: bool
    trained: bool


def setting(number: int) -> Setting:
    rng = torch.Generator().manual_seed(number)
    draw = torch.rand(8, generator=rng).tolist()
    classes = 2 + int(6 * draw[0])
    noise = NOISES[int(len(NOISES) * draw[1])]
    # most labels of each class are right: otherwise names of classes are what is wrong
    most = 0.8 * (1 - 1 / classes) if noise == "even" else 0.45
    model = MODELS[number % len(MODELS)]
    features = model == "none" or draw[2] < 0.6
    return Setting(
        number,
        noise,
        model,
        classes,
        samples=60 + int(240 * draw[3]),
        rate=most * draw[4],
        apart=0.5 + 4 * draw[5],
        features=features,
        trained=draw[6] < 0.5 or (model in ("overfitted", "adversarial") and not features),
    )


def labelled(s: Setting, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Features, true and given labels."""
    true = torch.randint(0, s.classes, (s.samples,), generator=rng)
    means = s.apart * torch.randn(s.classes, 8, generator=rng) / math.sqrt(8) * 2
    x = means[true] + torch.randn(s.samples, 8, generator=rng)
    struck = torch.rand(s.samples, generator=rng) < s.rate
    if s.noise == "even":
        other = (true + torch.randint(1, s.classes, (s.samples,), generator=rng)) % s.classes
    elif s.noise == "swapped":
        other = (true + 1) % s.classes
    else:  # of the samples that are nearest to another class, every other one is taken for it
        far = torch.cdist(x, means).scatter(1, true[:, None], torch.inf)
        other, doubtful = far.argmin(1), far.min(1).values.argsort()[: int(2 * s.rate * s.samples)]
        struck = torch.zeros(s.samples, dtype=torch.bool).index_fill(0, doubtful[::2], True)
    return x, true, torch.where(struck, other, true)


def predicted(s: Setting, true: Tensor, given: Tensor, rng: torch.Generator) -> Tensor:
    noise = torch.randn(s.samples, s.classes, generator=rng)
    given_is = torch.nn.functional.one_hot(given, s.classes)
    if s.model == "weak":
        return (noise + torch.nn.functional.one_hot(true, s.classes)).softmax(1)
    if s.model == "overfitted":
        return (noise + 9 * given_is).softmax(1)
    if s.model == "constant":
        return torch.tensor([5.0, *[0.0] * (s.classes - 1)]).softmax(0).repeat(s.samples, 1)
    if s.model == "shuffled":
        right = torch.nn.functional.one_hot(true[torch.randperm(s.samples, generator=rng)])
        return (
            noise + 4 * torch.nn.functional.pad(right, (0, s.classes - right.shape[1]))
        ).softmax(1)
    return (20.0 * given_is).softmax(1)  # swears that every label is right


def audited(s: Setting) -> tuple[Audit, float]:
    rng = torch.Generator().manual_seed(s.number)
    x, true, given = labelled(s, rng)
    evidence = Evidence(
        "ward",
        [str(row) for row in range(s.samples)],
        tuple(map(str, range(s.classes))),
        given,
        {} if s.model == "none" else {"model": predicted(s, true, given, rng)},
        None,
        "From a test.",
        trained=s.trained,
        features=x if s.features else None,
    )
    return audit(with_site_opinions(evidence)), float((given != true).double().mean())


def refuse_all_clear(s: Setting) -> None:
    found, rate = audited(s)
    low = found.rate.estimate < rate / 3 and found.rate.high < rate
    assert not low, f"{s}: {found.rate} for {rate:.3f}; {found.verdict}"


@pytest.mark.parametrize("number", range(6))
def test_many_wrong_labels_are_never_called_clean(number: int) -> None:
    refuse_all_clear(setting(number))


@pytest.mark.attack
def test_many_wrong_labels_are_never_called_clean_in_many_settings(tries: int) -> None:
    for number in range(tries):
        refuse_all_clear(setting(number))
