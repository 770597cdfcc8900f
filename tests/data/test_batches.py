"""Batches and augmentation: nothing lost, nothing twice, and the same draws on every path."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flr.core.contract import Site
from flr.core.errors import ConfigError
from flr.data.batches import Batches, augment, batches
from flr.data.build import from_arrays


def site(n):
    return Site("s", torch.arange(float(n)).view(n, 1), torch.arange(n) % 3, 3)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.integers(0, 60), st.integers(1, 20))
def test_an_epoch_shows_every_sample_once(n, size):
    parts = list(batches(site(n), size, rng()))
    assert sorted(i for part in parts for i in part.tolist()) == list(range(n))
    assert all(len(part) > 0 for part in parts)
    assert all(len(part) == size for part in parts[:-1])
    if parts:
        assert len(parts[-1]) <= size + (size > 1)
        assert size == 1 or n == 1 or len(parts[-1]) > 1


def test_the_order_comes_from_the_generator():
    first, again, other = (torch.cat(list(batches(site(50), 7, rng(s)))) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def by_hand(x, fill, seed):
    """One image at a time, by slices."""
    generator = rng(seed)
    n, channels, height, width = x.shape
    shift = torch.randint(0, 9, (2, n, 1), generator=generator)
    flip = torch.randint(0, 2, (n, 1), generator=generator)
    out = []
    for i in range(n):
        padded = torch.empty(channels, height + 8, width + 8)
        for c in range(channels):
            padded[c] = fill[c]
        padded[:, 4:-4, 4:-4] = x[i]
        top, left = int(shift[0, i]), int(shift[1, i])
        crop = padded[:, top : top + height, left : left + width]
        out.append(crop.flip(2) if flip[i] else crop)
    return torch.stack(out)


@pytest.mark.parametrize("shape", [(64, 3, 6, 5), (40, 1, 8, 8), (3, 2, 32, 32)])
def test_crop_flip_is_pad_crop_and_mirror(shape):
    x, fill = torch.randn(shape), (0.5, -1.0, 2.0)[: shape[1]]
    result = augment(x, "crop-flip", rng(3), fill)
    assert torch.equal(result, by_hand(x, fill, 3))
    assert result.is_contiguous()


def test_crop_flip_draws_every_shift_and_both_mirrors():
    x = torch.zeros(4000, 1, 9, 9)
    x[:, :, 4, 4] = 1.0
    where = augment(x, "crop-flip", rng(), (0.0,)).flatten(1).argmax(1)
    seen = torch.bincount(where, minlength=81)
    assert (seen > 0).all()
    assert seen.max() < 3 * seen.min()
    ramp = torch.arange(9.0).expand(4000, 1, 9, 9)
    mirrored = augment(ramp, "crop-flip", rng(), (0.0,))[:, 0, 4, 3:6].diff().sum(1) < 0
    assert 0.45 < mirrored.float().mean() < 0.55


def test_none_returns_the_input_and_draws_nothing():
    generator, x = rng(), torch.randn(2, 3, 4, 4)
    before = generator.get_state()
    assert augment(x, "none", generator, ()) is x
    assert torch.equal(generator.get_state(), before)


def test_augmentation_that_cannot_be():
    with pytest.raises(ConfigError, match='Did you mean "crop-flip"'):
        augment(torch.zeros(1, 1, 2, 2), "crop-flop", rng(), (0.0,))
    with pytest.raises(ConfigError, match="shape 7"):
        augment(torch.zeros(5, 7), "crop-flip", rng(), (0.0,))


def client(data, size):
    train = SimpleNamespace(batch=size)
    return SimpleNamespace(data=data, train=train, order=rng(1), augmentation=rng(2))


def test_client_batches_carry_index_input_and_label_of_the_same_sample():
    data = site(23)
    seen = list(Batches("none", ())(client(data, 11)))
    assert [len(b.y) for b in seen] == [11, 12]
    for b in seen:
        assert torch.equal(b.x, data.x[b.index])
        assert torch.equal(b.y, data.y[b.index])


def test_augmentation_does_not_change_the_order():
    data = Site("s", torch.randn(20, 1, 4, 4), torch.arange(20) % 2, 2)
    plain = [b.index for b in Batches("none", (0.0,))(client(data, 6))]
    moved = [b.index for b in Batches("crop-flip", (0.0,))(client(data, 6))]
    assert torch.equal(torch.cat(plain), torch.cat(moved))


def test_fill_is_the_normalized_zero():
    x = np.random.default_rng(0).integers(1, 255, (20, 5, 5, 3), dtype=np.uint8)
    data = from_arrays(x, np.arange(20) % 2)
    black = data.normalize(torch.zeros(1, 3, 1, 1, dtype=torch.uint8)).flatten()
    assert Batches.of(data).fill == pytest.approx(black.tolist(), rel=1e-6)
