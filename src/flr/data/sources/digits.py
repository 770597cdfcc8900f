"""Handwritten digits that come with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from flr.core.registry import register
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.train_test_split import stratified


@register("digits", kind="dataset", title="Handwritten digits")
@dataclass(frozen=True)
class Digits:
    """1,797 grey images of 8 x 8 pixels, bundled with scikit-learn: 1,437 to train, 360 to test.

    The split is stratified and always the same.
    """

    def load(self) -> Dataset:
        """Pixels are 0 ... 16, as published."""
        from sklearn.datasets import load_digits  # takes seconds, and few runs need it

        bunch = load_digits()
        x = torch.from_numpy(bunch.images.astype(np.uint8))[:, None]
        data = LabeledData(x, torch.from_numpy(bunch.target.astype(np.int64)))
        train, test = (data[torch.from_numpy(rows)] for rows in stratified(data.y.numpy()))
        classes = tuple(str(digit) for digit in range(10))
        normalize = Normalization((0.0,), (16.0,))
        return Dataset("digits", train, test, classes, normalize, noise_map="digits")
