"""FedRG's parts against closed forms; there are no recorded outputs of the authors' code."""

from __future__ import annotations

import math

import torch

from flr.methods.shared.feature_clusters import (
    Clusters,
    concentration,
    evidence,
    first_clusters,
    fitting,
    moved_clusters,
    noisy_loss,
    nt_xent,
    reliability,
    responsibilities,
    transition_rows,
)
from tests.equations.recorded import close, double

CLUSTERS = Clusters(
    mu=torch.eye(2).double(),
    kappa=double([4.0, 2.0]),
    beta=double([0.75, 0.25]),
    background=double(0.1),
    labels=double([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),
)


def test_each_view_looks_for_the_other_one():
    h1, h2 = double([[2.0, 0.0], [0.0, 1.0]]), double([[1.0, 0.0], [0.0, 3.0]])
    e = math.exp(2.0)  # at temperature 0.5: its other view has cosine 1, two strangers 0
    close(nt_xent(h1, h2, 0.5), -math.log(e / (e + 2)), 1e-12)
    close(nt_xent(h1[:1], h2[:1], 0.5), 0.0, 0)  # nobody else is there


def test_concentration_grows_with_the_length_of_the_mean():
    close(concentration(double([0.5]), 3), [0.5 * 2.75 / 0.75], 1e-12)
    edges = concentration(double([0.0, 1.0]), 3)
    assert edges.isfinite().all()
    assert edges[0] < 1e-5 < 1e5 < edges[1]


def test_reliability_is_cut_at_both_ends():
    close(reliability(double([0.1, 3.0, 90.0]), double(2.0)), [0.2, 1.5, 2.0], 1e-12)


def test_responsibilities_and_evidence():
    z, r = double([[1.0, 0.0]]), double([0.5])
    raw = [math.sqrt(0.1), math.sqrt(0.75) * math.exp(0.5 * 4 / 2), math.sqrt(0.25)]
    gamma = responsibilities(z, r, CLUSTERS)
    close(gamma, [[part / sum(raw) for part in raw]], 1e-12)
    expected = 1 - (0.2 * raw[1] + 0.8 * raw[2]) / sum(raw)
    close(evidence(gamma, torch.tensor([1]), CLUSTERS), [expected], 1e-12)


def test_labels_of_small_evidence_are_believed():
    e = double([0.10, 0.12, 0.11, 0.91, 0.93, 0.13])
    assert fitting(e).tolist() == [True, True, True, False, False, True]
    assert fitting(double([0.4, 0.4])).all()
    assert fitting(double([0.4])).all()


def test_clusters_move_by_a_tenth():
    z, y = double([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 2])
    gamma = double([[0.2, 0.8, 0.0], [0.0, 0.5, 0.5]])
    moved = moved_clusters(CLUSTERS, z, gamma, y, torch.tensor([True, False]))
    direction = double([0.8, 0.5]) / math.hypot(0.8, 0.5)
    first = 0.9 * double([1.0, 0.0]) + 0.1 * direction
    close(moved.mu[0], (first / first.norm()).tolist(), 1e-12)
    length = double([math.hypot(0.8, 0.5) / (1.3 + 1e-8), 1.0])
    narrow = concentration(length, 2).clamp(0.5, 100)
    close(moved.kappa, (0.9 * CLUSTERS.kappa + 0.1 * narrow).tolist(), 1e-6)
    close(moved.beta, [0.675 + 0.1 * 3.8 / 6.8, 0.225 + 0.1 * 3.0 / 6.8], 1e-12)
    close(moved.background, 0.09 + 0.1 * 0.7 / 2.5, 1e-12)
    close(moved.labels[0], [0.81 + 0.1 * 1.3 / 1.8, 0.09 + 0.1 * 0.5 / 1.8], 1e-12)
    close(moved.labels[2], [0.5, 0.5], 1e-12)  # its label is not believed


def test_without_believed_labels_the_map_stays():
    z, gamma = double([[1.0, 0.0]]), double([[0.0, 1.0, 0.0]])
    moved = moved_clusters(CLUSTERS, z, gamma, torch.tensor([0]), torch.tensor([False]))
    close(moved.labels, CLUSTERS.labels.tolist(), 1e-12)
    assert 0.001 <= float(moved.background) <= 0.2


def test_doubted_labels_are_seen_through_the_transition():
    logits, y = double([[0.0, 0.0], [0.0, math.log(3)]]), torch.tensor([0, 0])
    T = double([[0.8, 0.2], [0.4, 0.6]])  # noqa: N806 - the paper's letter
    seen = 0.25 * 0.8 + 0.75 * 0.4
    close(noisy_loss(logits, T, y, torch.tensor([True, False])), -math.log(seen), 1e-9)
    close(noisy_loss(logits, T, y, torch.tensor([True, True])), 0.0, 0)
    close(transition_rows(double([[3.0, -1.0]])).sum(1), [1.0], 1e-12)


def test_where_it_begins():
    begin = first_clusters(double([[3.0, 4.0]]), 3)
    close(begin.mu, [[0.6, 0.8]], 1e-12)
    assert [float(part.flatten()[0]) for part in begin[1:4]] == [5.0, 1.0, 0.05]
    close(begin.labels, [[1 / 3]] * 3, 1e-12)
