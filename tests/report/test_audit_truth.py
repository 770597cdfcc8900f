"""An audit beside the truth: each number against its definition, and the page of results."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import flr
from flr.core.errors import DataError
from flr.data.dataset import Ragged
from flr.data.sources.digits import Digits
from flr.report import audit_truth
from flr.report.audit_truth import Judged
from flr.report.metrics import calibration_error
from flr.scenario import scenario as scenarios
from flr.scenario.truth import Truth

RESULTS = Path(__file__).resolve().parents[2] / "results"


@dataclass(frozen=True)
class Said:
    """What an audit says, without an audit."""

    wrong: Tensor
    suggested: Tensor


@dataclass(frozen=True)
class Range:
    estimate: float
    low: float
    high: float


def judged(wrong: list[float], errors: list[int], rate: Range | None = None) -> Judged:
    """Class 0 is always given; a wrong label is really class 1, and class 1 is suggested."""
    given = torch.zeros(len(wrong), dtype=torch.int64)
    return Judged(torch.tensor(wrong), torch.ones_like(given), given, torch.tensor(errors), rate)


def test_a_ranking_by_hand():
    found = audit_truth.measure(judged([0.9, 0.8, 0.6, 0.2], [1, 0, 1, 0]))
    assert found["samples"] == 4
    assert found["wrong"] == 2
    assert found["auroc"] == pytest.approx(3 / 4)  # of four pairs one is the wrong way round
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["precision_at_errors"] == pytest.approx(1 / 2)
    assert found["precision_at_1_percent"] == 1.0
    assert found["brier"] == pytest.approx((0.01 + 0.64 + 0.16 + 0.04) / 4)


def test_shares_of_the_samples_are_rounded_and_at_least_one():
    n = 300
    wrong = torch.linspace(1, 0, n).tolist()
    errors = [1] * 3 + [0] * 6 + [1] * 6 + [0] * (n - 15)
    found = audit_truth.measure(judged(wrong, errors))
    assert found["precision_at_1_percent"] == 1.0  # three
    assert found["precision_at_5_percent"] == pytest.approx(9 / 15)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.7]), st.booleans()), min_size=1, max_size=5),
    st.integers(1, 5),
)
@settings(deadline=None, max_examples=60)
def test_equal_scores_count_as_if_drawn_at_random(samples, count):
    count = min(count, len(samples))
    wrong = torch.tensor([score for score, _ in samples], dtype=torch.float64)
    errors = torch.tensor([error for _, error in samples])
    orders = [
        sorted(order, key=lambda sample: -sample[0]) for order in itertools.permutations(samples)
    ]
    expected = mean(sum(error for _, error in order[:count]) / count for order in orders)
    found = audit_truth.precision_at(wrong, errors, count)
    assert found is None if not errors.any() else found == pytest.approx(expected)


def test_suggestions_are_counted_among_wrong_labels_and_among_suspects():
    given_labels = torch.tensor([0, 0, 0, 0])
    true = torch.tensor([1, 2, 0, 0])
    suggested = torch.tensor([1, 1, 2, 1])
    wrong = torch.tensor([0.9, 0.5, 0.6, 0.4])
    found = audit_truth.measure(Judged(wrong, suggested, given_labels, true))
    assert found["suspects"] == 3
    assert found["suggestions_of_wrong"] == pytest.approx(1 / 2)
    assert found["suggestions_of_suspects"] == pytest.approx(1 / 3)  # a right label stays unhelped


def test_calibration_by_bins():
    wrong = torch.tensor([0.05, 0.05, 0.95, 1.0], dtype=torch.float64)
    errors = torch.tensor([False, True, True, True])
    expected = (2 / 4) * abs(0.05 - 0.5) + (2 / 4) * abs(0.975 - 1.0)
    assert calibration_error(wrong, errors, audit_truth.BINS) == pytest.approx(expected)


def test_probabilities_that_come_true_are_calibrated():
    rng = torch.Generator().manual_seed(0)
    wrong = torch.rand(50_000, generator=rng, dtype=torch.float64)
    errors = torch.rand(50_000, generator=rng, dtype=torch.float64) < wrong
    assert calibration_error(wrong, errors, audit_truth.BINS) < 0.02
    assert calibration_error(1 - wrong, errors, audit_truth.BINS) > 0.4


def test_without_a_wrong_label_there_is_nothing_to_rank():
    found = audit_truth.measure(judged([0.3, 0.1], [0, 0]))
    nothing = ("auroc", "average_precision", "precision_at_errors", "precision_at_1_percent")
    assert all(found[name] is None for name in (*nothing, "suggestions_of_wrong"))
    assert found["suggestions_of_suspects"] is None
    assert found["rate_error"] == pytest.approx(0.2)
    json.dumps(found, allow_nan=False)


def test_with_wrong_labels_only_no_pair_can_be_compared():
    found = audit_truth.measure(judged([0.3, 0.1], [1, 1]))
    assert found["auroc"] is None
    assert found["average_precision"] == 1.0


def test_clients_are_pooled_by_probability_and_their_rates_by_size():
    sites = {
        0: judged([0.9, 0.1], [1, 0], Range(0.4, 0.3, 0.6)),
        1: judged([0.95, 0.5, 0.2, 0.1], [0, 1, 0, 0], Range(0.4, 0.3, 0.5)),
        2: judged([0.2, 0.1], [0, 0], Range(0.1, 0.0, 0.3)),
    }
    found = audit_truth.overall(sites)
    assert found["average_precision"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert found["client_average_precision"] == pytest.approx((1 + 1 / 2) / 2)  # two have any
    assert found["rate"] == pytest.approx(2 / 8)
    assert found["estimated_rate"] == pytest.approx((2 * 0.4 + 4 * 0.4 + 2 * 0.1) / 8)
    assert found["client_rate_error"] == pytest.approx((0.1 + 0.15 + 0.1) / 3)
    assert found["client_interval_covers"] == pytest.approx(2 / 3)
    assert found["client_interval_width"] == pytest.approx((0.3 + 0.2 + 0.3) / 3)


def test_an_audit_without_intervals_covers_nothing():
    found = audit_truth.overall({0: judged([0.9, 0.1], [1, 0])})
    assert found["client_interval_covers"] is None
    assert found["client_interval_width"] is None
    assert found["estimated_rate"] == pytest.approx(0.5)


def test_scores_of_another_run_are_refused():
    labels = Ragged.of([torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)])
    truth = Truth(labels, labels)
    two = Said(torch.zeros(2), torch.ones(2, dtype=torch.int64))
    assert list(audit_truth.judge(truth, {1: two})) == [1]
    with pytest.raises(DataError, match=r"3 samples that client 0 has.*got 2"):
        audit_truth.judge(truth, {0: two})
    for client in (2, -1):
        with pytest.raises(DataError, match=f"client {client}"):
            audit_truth.judge(truth, {client: two})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites with wrong labels; what the model learns does not matter here."""
    config = {
        "rounds": 1,
        "workers": 1,
        "method": "fedavg",
        "data": {"name": "digits", "train": 120, "test": 20},
        "partition": {"kind": "iid", "clients": 3},
        "noise": {"kind": "symmetric", "floor": 0.3},
        "train": {"epochs": 1},
    }
    return flr.run(config, out=tmp_path_factory.mktemp("runs") / "run").folder


def truth_of(run: Path) -> Truth:
    dataset = flr.simulation.api.load_data(flr.Run(run).config)
    return Truth.of(scenarios.load(run / "scenario.safetensors"), dataset)


def all_knowing(run: Path) -> dict[int, Said]:
    """The truth itself, and a suggestion that is right wherever one is needed."""
    truth = truth_of(run)
    return {
        client: Said((site != true).float(), torch.where(site != true, true, (true + 1) % 10))
        for client, (site, true) in enumerate(zip(truth.given, truth.true, strict=True))
    }


def test_the_report_of_a_run_is_written_beside_its_audit(run, tmp_path):
    found = audit_truth.report(run, all_knowing(run))
    assert found is not None
    assert json.loads((run / "audit" / "truth.json").read_text()) == found
    everything = found["all"]
    assert everything["samples"] == 120
    assert everything["rate"] == pytest.approx(truth_of(run).overall)
    for name in ("auroc", "average_precision", "precision_at_errors", "suggestions_of_wrong"):
        assert everything[name] == 1.0
    assert everything["brier"] == everything["calibration_error"] == 0.0
    assert [one["client"] for one in found["per_client"]] == [0, 1, 2]

    audit_truth.report(run, all_knowing(run), out=tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "truth.json").exists()


def test_one_client_of_a_run(run, tmp_path):
    found = audit_truth.report(run, {1: all_knowing(run)[1]}, out=tmp_path)
    assert found is not None
    assert found["all"]["samples"] == len(truth_of(run).true[1])


def test_where_nobody_knows_the_truth_nothing_is_written(run, tmp_path):
    unknown = replace(Digits().load(), verified=False)
    scores = all_knowing(run)
    assert audit_truth.report(run, scores, out=tmp_path / "none", dataset=unknown) is None
    assert not (tmp_path / "none").exists()


def test_another_data_set_is_refused(run, tmp_path):
    with pytest.raises(DataError, match="Expected a scenario for this data set"):
        audit_truth.report(run, all_knowing(run), out=tmp_path, dataset=Digits().load())
