"""The five fractions: against the golden numbers, and for any labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flr.report.memorization import KEYS, fractions, mean_fractions

sample = st.tuples(*[st.integers(0, 3)] * 3)


def test_golden(golden) -> None:
    recorded = golden("memorization_metric_derived")
    found = fractions(*(torch.tensor(recorded[key]) for key in ("pred", "true", "noisy")))
    for kind in ("clean", "noisy"):
        for name in set(recorded["expected"][kind]) - {"n"}:
            expected = recorded["expected"][kind][name]
            assert found[f"{kind}_{name}"] == pytest.approx(expected, abs=1e-7)


@settings(max_examples=200, deadline=None)
@given(st.lists(sample, max_size=30))
def test_each_group_sums_to_one_or_is_absent(samples: list[tuple[int, int, int]]) -> None:
    predicted, true, label = (torch.tensor([s[i] for s in samples]) for i in range(3))
    found = fractions(predicted, true, label)
    assert tuple(found) == KEYS
    for kind, there in (("clean", bool((true == label).any())), ("noisy", (true != label).any())):
        group = [value for key, value in found.items() if key.startswith(kind)]
        if there:
            assert sum(v for v in group if v is not None) == pytest.approx(1.0)
            assert all(v is not None and 0 <= v <= 1 for v in group)
        else:
            assert group == [None] * len(group)


@settings(max_examples=100, deadline=None)
@given(st.lists(sample, min_size=1, max_size=20), st.randoms())
def test_order_of_samples_does_not_matter(samples: list[tuple[int, int, int]], random) -> None:
    shuffled = random.sample(samples, len(samples))
    first, second = (
        fractions(*(torch.tensor([s[i] for s in part]) for i in range(3)))
        for part in (samples, shuffled)
    )
    assert first == second


def test_predictions_may_be_int16() -> None:
    true, label = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2])
    found = fractions(torch.tensor([0, 2, 1], dtype=torch.int16), true, label)
    assert found["noisy_memorized"] == 1.0
    assert found["clean_correct"] == 0.5


def test_mean_leaves_out_what_is_absent() -> None:
    clean = dict.fromkeys(KEYS) | {"clean_correct": 0.5, "clean_wrong": 0.5}
    both = dict(zip(KEYS, (1.0, 0.0, 0.25, 0.25, 0.5), strict=True))
    found = mean_fractions([clean, both])
    assert found["clean_correct"] == 0.75
    assert found["noisy_memorized"] == 0.5
    assert mean_fractions([clean])["noisy_wrong"] is None
    assert mean_fractions([]) == dict.fromkeys(KEYS)
