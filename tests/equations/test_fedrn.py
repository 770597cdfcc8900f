"""FedRN's scores and its joint split, and the copies of networks it works with."""

from __future__ import annotations

import torch
from torch import nn

from flr.methods.fedrn import believed, choose_neighbours, joint_probability
from flr.methods.shared.network_copies import copied, flatten, renamed, unflatten


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(made, expected) -> None:
    torch.testing.assert_close(made, double(expected), atol=1e-12, rtol=0)


# cosines with the first row: 1, 0.8, 0, -1; scaled: 1, 0.9, 0.5, 0
OUTPUTS = double([[1.0, 0.0], [4.0, 3.0], [0.0, 2.0], [-5.0, 0.0]])
EXPERTISE = double([0.3, 0.1, 0.9, 0.5])  # scaled: 0.25, 0, 1, 0.5


def test_scores_blend_expertise_and_similarity():
    made = choose_neighbours(OUTPUTS, EXPERTISE, 0, 2, 0.5)
    assert made.chosen.tolist() == [2, 1]
    close(made.scores, [0.5 * 0.25 + 0.5, 0.75, 0.45])


def test_one_weight_alone_decides_at_the_ends():
    assert choose_neighbours(OUTPUTS, EXPERTISE, 0, 3, 0.0).chosen.tolist() == [1, 2, 3]
    assert choose_neighbours(OUTPUTS, EXPERTISE, 0, 3, 1.0).chosen.tolist() == [2, 3, 1]


def test_a_client_is_never_its_own_neighbour():
    """Also where there are fewer others than asked for, or none."""
    assert choose_neighbours(OUTPUTS, EXPERTISE, 2, 9, 1.0).chosen.tolist() == [3, 0, 1]
    alone = choose_neighbours(OUTPUTS[:1], EXPERTISE[:1], 0, 2, 0.5)
    assert alone.chosen.tolist() == []
    close(alone.scores, [1.0])


def test_equal_clients_count_alike():
    made = choose_neighbours(torch.ones(3, 2), torch.full((3,), 0.4), 1, 2, 0.5)
    assert made.chosen.tolist() == [0, 2]
    assert made.scores.tolist() == [1.0, 1.0, 1.0]


def test_the_joint_probability_is_weighted_by_scores():
    p = [double([1.0, 0.0]), double([0.0, 1.0])]
    close(joint_probability(p, double([0.75, 0.25])), [0.75, 0.25])
    close(joint_probability(p, double([0.3, 0.1])), [0.75, 0.25])
    close(joint_probability(p, double([0.0, 0.0])), [0.5, 0.5])


def test_without_a_believed_sample_all_are_taken():
    assert believed(double([0.4, 0.6, 0.5])).tolist() == [1]
    assert believed(double([0.4, 0.1])).tolist() == [0, 1]


def test_a_network_survives_as_a_vector():
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    network(torch.randn(5, 3))
    fresh = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    back = copied(fresh, unflatten(fresh, flatten(network))).state_dict()
    assert all(torch.equal(value, back[name]) for name, value in network.state_dict().items())
    assert back["1.num_batches_tracked"].dtype == torch.int64


def test_entries_are_renamed_by_whole_prefixes():
    one = torch.ones(1)
    made = renamed({"fedrn.1.model.w": one, "fedrn.11.model.w": 2 * one}, "fedrn.1.model.", "n.0.")
    assert made == {"n.0.w": one}
