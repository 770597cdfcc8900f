"""DivideMix's equations against numbers worked out by hand, its batches and its guards."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from flr.config import Train
from flr.core.contract import Batch, Client, Site
from flr.data.batches import Batches
from flr.methods.dividemix import DivideMix, MixMatch
from flr.methods.shared.mixmatch import (
    co_guess,
    co_refine,
    confidence_penalty,
    dividemix_loss,
    prior_penalty,
    ramp,
    sharpen,
    unlabelled_loss,
)
from flr.methods.shared.mixtures import clean_probability, min_max, two_groups
from flr.methods.shared.selection import take


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(made, expected) -> None:
    torch.testing.assert_close(made, double(expected), atol=1e-12, rtol=0)


def test_sharpening_by_one_half_squares():
    close(sharpen(double([[0.6, 0.4], [1.0, 0.0]]), 0.5), [[0.36 / 0.52, 0.16 / 0.52], [1.0, 0.0]])
    close(sharpen(double([[0.3, 0.7]]), 1.0), [[0.3, 0.7]])


def test_labelled_targets_blend_label_and_guess_by_w():
    y = double([[1.0, 0.0], [1.0, 0.0]])
    p, p2 = double([[0.2, 0.8], [0.2, 0.8]]), double([[0.4, 0.6], [0.4, 0.6]])
    made = co_refine(y, double([1.0, 0.5]), (p, p2), 1.0)
    close(made, [[1.0, 0.0], [0.65, 0.35]])
    close(co_refine(y, double([1.0, 0.5]), (p, p2), 0.5), sharpen(made, 0.5).tolist())


def test_unlabelled_targets_are_the_mean_of_four():
    rows = [double([[a, 1 - a]]) for a in (0.1, 0.3, 0.5, 0.7)]
    close(co_guess(rows, 1.0), [[0.4, 0.6]])


@pytest.mark.parametrize(
    ("t", "expected"), [(9.0, 0.0), (10.0, 0.0), (14.0, 6.25), (26.0, 25.0), (99.0, 25.0)]
)
def test_the_ramp_starts_after_the_warm_up_and_ends_after_its_length(t, expected):
    assert ramp(t, 10, 16, 25.0) == expected


def test_the_loss_is_the_sum_of_its_parts():
    """Two classes with equal logits but for one row, so that every part is a closed form."""
    logits = double([[0.0, 0.0], [math.log(3), 0.0], [0.0, 0.0]])  # p = 1/2, 3/4, 1/2
    targets = double([[0.5, 0.5], [0.8, 0.2], [0.9, 0.1]])
    made = dividemix_loss(logits, targets, 2, 10.0)
    lx = (math.log(2) - 0.8 * math.log(0.75) - 0.2 * math.log(0.25)) / 2
    lu = 0.4**2
    mean = (0.5 + 0.75 + 0.5) / 3
    penalty = 0.5 * math.log(0.5 / mean) + 0.5 * math.log(0.5 / (1 - mean))
    close(made.lx, lx)
    close(made.lu, lu)
    close(made.penalty, penalty)
    close(made.loss, lx + 10 * lu + penalty)


def test_without_unlabelled_rows_there_is_no_second_term():
    made = dividemix_loss(torch.randn(4, 3), torch.full((4, 3), 1 / 3), 4, 25.0)
    assert made.lu == 0
    assert made.loss.isfinite()


def test_the_unlabelled_loss_is_a_mean_over_classes_too():
    close(unlabelled_loss(double([[0.0, 0.0]]), double([[1.0, 0.0]])), 0.25)


def test_the_prior_penalty_is_zero_for_balanced_predictions_and_finite_for_collapsed_ones():
    close(prior_penalty(double([[5.0, 0.0], [0.0, 5.0]])), 0.0)
    collapsed = torch.tensor([[500.0, 0.0]], requires_grad=True)
    prior_penalty(collapsed).backward()
    assert prior_penalty(collapsed).isfinite()
    assert collapsed.grad.isfinite().all()


def test_the_confidence_penalty_is_negative_entropy():
    close(confidence_penalty(torch.zeros(3, 4, dtype=torch.float64)), -math.log(4))
    close(confidence_penalty(double([[1000.0, 0.0]])), 0.0)


def test_the_smaller_losses_are_clean():
    generator = torch.Generator().manual_seed(0)
    small = 0.2 + 0.05 * torch.randn(60, generator=generator)
    large = 3.0 + 0.3 * torch.randn(40, generator=generator)
    w = clean_probability(torch.cat([small, large]), seed=1)
    assert w[:60].min() > 0.5 > w[60:].max()
    assert w.dtype == small.dtype
    assert two_groups(torch.cat([small, large]), seed=1).nonzero()[:, 0].tolist() == [
        *range(60, 100)
    ]


@pytest.mark.parametrize(
    "losses", [[], [1.0], [2.0, 2.0, 2.0], [1.0, float("nan")], [1.0, float("inf")]]
)
def test_losses_that_cannot_be_split_are_all_clean(losses):
    values = torch.tensor(losses)
    assert clean_probability(values, seed=0).tolist() == [1.0] * len(losses)
    assert two_groups(values, seed=0).tolist() == [False] * len(losses)


def test_two_values_are_two_groups():
    assert two_groups(torch.tensor([3.0, 1.0]), seed=0).tolist() == [True, False]


def test_many_values_give_the_same_bits_again():
    values = torch.randn(5000, generator=torch.Generator().manual_seed(0)).exp()
    assert torch.equal(clean_probability(values, seed=3), clean_probability(values, seed=3))


def test_equal_values_are_scaled_to_one():
    assert min_max(torch.tensor([2.0, 2.0])).tolist() == [1.0, 1.0]
    assert min_max(torch.tensor([2.0, 4.0, 3.0])).tolist() == [0.0, 1.0, 0.5]


def client(samples: int = 9) -> Client:
    """A site of small images with two BatchNorm networks, in train mode as `fit` leaves them."""
    rng = torch.Generator().manual_seed(0)
    site = Site(
        "a",
        torch.randn(samples, 1, 6, 6, generator=rng),
        torch.arange(samples) % 3,
        classes=3,
    )
    parts = [nn.Flatten(), nn.Linear(36, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)]
    networks = nn.ModuleList(nn.Sequential(*copy.deepcopy(parts)) for _ in range(2))
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2, 3)]
    return Client(
        id=0,
        method=DivideMix(),
        model=networks.train(),
        data=site,
        state={},
        inbox={},
        step=5,
        round=5,
        rounds=10,
        train=Train(batch=4, epochs=1),
        order=generators[0],
        augmentation=generators[1],
        rng=generators[2],
        make_batches=Batches("crop-flip", (0.0,)),
        make_reference=lambda c: c.model,
    )


def divided(c: Client, w: list[float]):
    return list(DivideMix().divided(c, 0, torch.tensor(w), epoch=0))


def test_labelled_rows_come_first_and_remember_what_they_are_mixed_of():
    w = [1.0] * 6 + [0.0] * 3
    for b in divided(client(), w):
        n, plain = len(b.labelled.x), b.labelled.plain
        assert b.networks == (0,)
        assert (plain.index[:n] < 6).all()
        assert (plain.index[n:] >= 6).all()
        half = n // 2
        assert torch.equal(plain.index[:half], plain.index[half:n])  # two views
        assert not torch.equal(plain.x[:half], plain.x[half:n])
        assert torch.equal(plain.y[:half], plain.y[half:n])
        part = b.labelled
        assert 0.5 <= part.weight <= 1
        for mixed, row in ((part.x, plain.x), (part.y, plain.y)):
            expected = part.weight * row[:n] + (1 - part.weight) * row[part.partner]
            torch.testing.assert_close(mixed, expected)
        # w = 1: the label is believed, whatever the network says
        assert torch.equal(plain.y[:half].argmax(1), plain.index[:half] % 3)


def test_without_labelled_samples_an_epoch_is_on_all_given_labels():
    batches = divided(client(), [0.0] * 9)
    assert all(b.networks == (0,) and not isinstance(b, MixMatch) for b in batches)
    assert sorted(torch.cat([b.index for b in batches]).tolist()) == [*range(9)]


def test_without_unlabelled_samples_all_rows_are_labelled():
    assert all(len(b.x) == len(b.labelled.x) for b in divided(client(), [1.0] * 9))


def test_a_single_sample_on_either_side_does_not_break_batchnorm():
    for w in ([1.0] + [0.0] * 8, [0.0] + [1.0] * 8):
        c = client()
        for b in divided(c, w):
            assert DivideMix().loss(c, b).isfinite()


def test_guesses_move_the_statistics_of_the_network_in_training_only():
    """As in the authors' code: it sees two views of labelled and of unlabelled samples."""
    c = client(8)
    batches = DivideMix().divided(c, 0, torch.tensor([1.0] * 4 + [0.0] * 4), epoch=0)
    next(batches)
    assert [int(network[2].num_batches_tracked) for network in c.model] == [4, 0]
    assert all(network[2].training for network in c.model)


def test_chosen_rows_of_a_mixed_batch_keep_their_partners():
    plain = Batch(torch.arange(5.0)[:, None], torch.arange(5), torch.arange(5) + 10)
    partner = torch.tensor([3, 4, 0, 1, 2])
    x = 0.75 * plain.x + 0.25 * plain.x[partner]
    made = take(Batch(x, plain.y, plain.index, None, plain, partner, 0.75), torch.tensor([4, 1]))
    assert made.index.tolist() == [14, 11]
    again = 0.75 * made.plain.x[:2] + 0.25 * made.plain.x[made.partner]
    torch.testing.assert_close(made.x, again)
    assert torch.equal(made.x, x[[4, 1]])
