"""WordLlama: the vectors of a text's tokens, averaged. There is no network to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn

from flr.core.registry import register
from flr.models import pretrained
from flr.models.backbones.common import WEIGHTS, digest_of_files, file_of_package
from flr.models.backbones.texts import Vocabulary, each

_NAME = "wordllama"
_WORDS, _WIDTH = 32000, 256


class MeanOfTokens(nn.Module):
    """Texts -> the mean of their tokens' vectors; zeros for an empty text."""

    features = _WIDTH

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(_WORDS, _WIDTH)

    def forward(self, texts: Sequence[str]) -> Tensor:
        return each(texts, self._features_of, self.features)

    def _features_of(self, text: str) -> Tensor:
        vectors = self.embedding.weight
        tokens = torch.tensor(self.vocabulary.tokens_of(text), dtype=torch.long)
        if not len(tokens):
            return vectors.new_zeros(self.features)
        return vectors[tokens.to(vectors.device)].mean(0)


@register(_NAME, kind="backbone", title="WordLlama", paper="Miller, 2024 (software)", year=2024)
@dataclass(frozen=True)
class WordLlama:
    """Texts to 256 features: the mean of the tokens' vectors; small, a hundredfold faster.

    The order of words does not count. Of a text, the first `tokens` tokens count (a word has one
    or a few), among the first 64 x `tokens` characters. Vectors and vocabulary come with the
    package wordllama (`pip install "flr[backbones]"`), no code of which runs.
    """

    tokens: Annotated[int, Ge(1)] = 512

    takes: ClassVar[str] = "texts"
    side: ClassVar[int] = 0

    def fingerprint(self) -> str:
        return digest_of_files([_weights(), _vocabulary()])

    def load(self) -> MeanOfTokens:
        path = _weights()
        vocabulary = Vocabulary(_vocabulary(), self.tokens, _NAME, marks=False)
        with torch.random.fork_rng(devices=[]):  # no initial weight stays; no generator moves
            network = MeanOfTokens(vocabulary)
        pretrained.fill_all(network, pretrained.read(path, WEIGHTS)[0], path, f"backbone {_NAME}")
        return network.eval().requires_grad_(False)


def _weights() -> Path:
    return file_of_package(_NAME, f"weights/l2_supercat_{_WIDTH}.safetensors", _NAME)


def _vocabulary() -> Path:
    return file_of_package(_NAME, "tokenizers/l2_supercat_tokenizer_config.json", _NAME)
