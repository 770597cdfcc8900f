"""RoFL's equations against numbers worked out by hand, and its guards."""

from __future__ import annotations

import math

import pytest
import torch

from flr.methods.rofl import (
    centroid_loss,
    centroid_weight,
    class_means,
    entropy,
    nearest_is_given,
    server_centroids,
    update_centroids,
)


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(made, expected) -> None:
    torch.testing.assert_close(made, double(expected), atol=1e-12, rtol=0)


def test_an_absent_class_has_a_mean_of_zero():
    features = double([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]])
    close(class_means(features, torch.tensor([0, 0, 2]), 3), [[2.0, 3.0], [0.0, 0.0], [5.0, 5.0]])


def test_centroids_move_by_the_squared_cosine():
    """Class 0: 45 degrees, rho = 1/2; class 1: orthogonal; class 2: absent; class 3: opposite."""
    f_k = double([[1.0, 0.0], [1.0, 0.0], [3.0, 1.0], [0.0, 1.0]])
    features, y = double([[2.0, 2.0], [0.0, 9.0], [0.0, -3.0]]), torch.tensor([0, 1, 3])
    close(update_centroids(f_k, features, y), [[1.5, 1.0], [1.0, 0.0], [3.0, 1.0], [0.0, -3.0]])


def test_the_nearest_centroid_goes_by_angle_and_not_by_distance():
    f_k = double([[100.0, 0.0], [0.0, 1.0]])
    features = double([[2.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    assert nearest_is_given(features, f_k, torch.tensor([0, 0, 1])).tolist() == [True, False, False]


def test_centroids_of_zero_break_nothing():
    f_k, features = torch.zeros(2, 3), torch.zeros(4, 3)
    y = torch.tensor([0, 1, 0, 1])
    assert nearest_is_given(features, f_k, y).shape == (4,)
    assert update_centroids(f_k, features, y).isfinite().all()
    assert server_centroids(f_k, [f_k, f_k]).isfinite().all()


def test_the_centroid_loss_counts_believed_samples_and_divides_by_all_and_by_features():
    features = double([[1.0, 1.0], [0.0, 3.0], [2.0, 0.0]]).requires_grad_()
    f_k, y = double([[0.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 0])
    mask = torch.tensor([True, True, False])
    close(centroid_loss(features, f_k, y, mask, "sum").detach(), 2.0 + 4.0)
    mean = centroid_loss(features, f_k, y, mask, "mean")
    close(mean.detach(), 1.0)
    mean.backward()
    close(features.grad, [[1 / 3, 1 / 3], [0.0, 2 / 3], [0.0, 0.0]])


def test_entropy_of_uniform_predictions():
    close(entropy(torch.zeros(2, 4, dtype=torch.float64)), math.log(4))


@pytest.mark.parametrize(
    ("r", "until", "expected"), [(0, 100, 0.0), (25, 100, 0.5), (100, 100, 2.0), (0, 0, 2.0)]
)
def test_the_centroid_term_grows_until_pseudo_labels_begin(r, until, expected):
    assert centroid_weight(r, until, 2.0) == expected


def test_the_server_weighs_centroids_by_their_cosine():
    """Class 0: cosines 1 and 0.6. Class 1: 0.8 and -1, which counts as nothing."""
    f_G = double([[1.0, 0.0], [0.0, 1.0]])  # noqa: N806
    sites = [double([[2.0, 0.0], [3.0, 4.0]]), double([[3.0, 4.0], [0.0, -1.0]])]
    made = server_centroids(f_G, sites, eps=0.0)
    close(made, [[(2.0 + 0.6 * 3) / 1.6, 0.6 * 4 / 1.6], [3.0, 4.0]])


def test_only_negative_weights_give_the_plain_mean():
    f_G = double([[1.0, 0.0]])  # noqa: N806
    close(server_centroids(f_G, [double([[-1.0, 0.0]]), double([[-3.0, 2.0]])]), [[-2.0, 1.0]])
