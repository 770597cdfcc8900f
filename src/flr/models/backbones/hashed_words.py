"""Words and pairs of words of a text, counted without a vocabulary: needs no weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from flr.core.registry import register
from flr.models.backbones.common import Encoder


@register(
    "hashed-words",
    kind="backbone",
    title="Hashed words",
    paper="Weinberger et al., ICML 2009",
    year=2009,
)
@dataclass(frozen=True)
class HashedWords:
    """Texts to counts of words and pairs of words without a network; needs no weights.

    A hash says which of `features` numbers counts a word, so that there is no vocabulary to agree
    on; several words share one. For the label audit where no pretrained network is installed. It
    sees words, and no meaning.
    """

    features: Annotated[int, Ge(16)] = 1024

    takes: ClassVar[str] = "texts"
    side: ClassVar[int] = 0

    def fingerprint(self) -> str:
        return hashlib.sha256(b"hashed words, 1").hexdigest()

    def load(self) -> Encoder:
        from sklearn.feature_extraction.text import HashingVectorizer

        counter = HashingVectorizer(n_features=self.features, ngram_range=(1, 2))

        def count(texts: Sequence[str]) -> Tensor:
            return torch.from_numpy(counter.transform(texts).toarray()).float()

        return count
