"""FedLSR against its definitions, and the authors' code where it differs from them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from flr.data.batches import Batches
from flr.methods.fedlsr import blended, jensen_shannon, ramp, second_view, self_entropy, sharpened


def logits(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 5, generator=generator, dtype=torch.float64)


Z1, Z2 = logits(1), logits(2)


@pytest.mark.parametrize("l", [0.0, 0.3, 1.0])
def test_the_blend_is_sharpened_and_normalized(l):  # noqa: E741
    p = l * Z1.softmax(1) + (1 - l) * Z2.softmax(1)
    torch.testing.assert_close(blended(Z1, Z2, l).exp(), p**2 / (p**2).sum(1, keepdim=True))


def test_a_cross_entropy_on_the_blend_is_its_negative_log_likelihood():
    y, log_p_s = torch.tensor([0, 1, 2, 3]), blended(Z1, Z2, 0.4)
    torch.testing.assert_close(F.cross_entropy(log_p_s, y), -log_p_s[range(4), y].mean())


@pytest.mark.parametrize("l", [0.0, 0.5, 1.0])
def test_gradients_stay_finite_where_predictions_are_certain(l):  # noqa: E741
    z = torch.tensor([[0.0, 300.0], [300.0, 0.0]], requires_grad=True)
    a, b = sharpened(z, 3.0), sharpened(-z, 3.0)
    loss = F.cross_entropy(blended(z, z * 2, l), torch.tensor([0, 0])) + jensen_shannon(a, b)
    (loss + self_entropy(a, b)).backward()
    assert torch.isfinite(z.grad).all()


def test_jensen_shannon_is_a_mean_over_samples_and_classes():
    a, b = sharpened(Z1, 3.0), sharpened(Z2, 3.0)
    log_m = ((a + b) / 2).log()
    kl = [F.kl_div(log_m, p, reduction="sum") / log_m.numel() for p in (a, b)]
    torch.testing.assert_close(jensen_shannon(a, b), sum(kl) / 2)
    assert jensen_shannon(a, a).item() == pytest.approx(0, abs=1e-15)


def test_the_entropy_is_of_both_views_unless_the_authors_code_is_wanted():
    a, b = sharpened(Z1, 3.0), sharpened(Z2, 3.0)

    def of(p):
        return torch.distributions.Categorical(probs=p).entropy().mean()

    torch.testing.assert_close(self_entropy(a, b), (of(a) + of(b)) / 2, atol=1e-5, rtol=0)
    torch.testing.assert_close(self_entropy(a, b, repo_quirks=True), of(a.softmax(1)))


def test_the_views_agree_more_and_more():
    assert [ramp(0.4, r, 20) for r in (0, 10, 20, 99)] == pytest.approx([0, 0.2, 0.4, 0.4])
    assert ramp(0.4, 0, 0) == 0.4


def client(kind, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return SimpleNamespace(make_batches=Batches(kind, (0.0,)), rng=rng)


def test_the_second_view_is_augmented_once_more_or_noisy():
    x = torch.arange(2 * 64.0).view(2, 1, 8, 8)
    shifted = second_view(client("crop-flip"), x, 0.1)
    assert not torch.equal(shifted, x)
    assert set(shifted.unique().tolist()) <= {0.0, *x.flatten().tolist()}
    noisy = second_view(client("none"), x, 0.1)
    assert 0 < (noisy - x).abs().max() < 1
    assert torch.equal(noisy, second_view(client("none"), x, 0.1))
    assert torch.equal(second_view(client("none"), x, 0.0), x)
