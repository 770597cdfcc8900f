"""Text networks of the package transformers as backbones: a folder, or a name of its hub."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn

from flr.config.errors import cut, show
from flr.config.who_named_it import may_download
from flr.core.errors import ConfigError, DataError
from flr.core.registry import register
from flr.models.backbones.common import digest_of_files
from flr.models.backbones.texts import beginning, each

_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")  # weights, settings, vocabularies


class MeanOfStates(nn.Module):
    """Texts -> the mean over the tokens of what the last layer gives."""

    def __init__(self, body: nn.Module, tokenizer: Any, tokens: int, width: int) -> None:
        super().__init__()
        self.body = body
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.features = width

    def forward(self, texts: Sequence[str]) -> Tensor:
        return each(texts, self._features_of, self.features)

    def _features_of(self, text: str) -> Tensor:
        device = next(self.body.parameters()).device
        text = beginning(text, self.tokens)
        limits = {"truncation": True, "max_length": self.tokens}
        given = self.tokenizer(text, return_tensors="pt", **limits).to(device)
        if not given["input_ids"].numel():  # an empty text, of a network without marks
            return torch.zeros(self.features, device=device)
        states: Tensor = self.body(**given).last_hidden_state
        return states[0].mean(0)


@register("huggingface", kind="backbone", title="Hugging Face")
@dataclass(frozen=True)
class HuggingFace:
    """Texts to features by a text encoder of the package transformers, averaged over the tokens.

    `model` is a folder with config.json, a tokenizer and weights as safetensors, or a name of the
    hub, whose files are then downloaded into its cache; not so where a model file, a run folder or
    a server names it. Weights as pickles and code that comes with a model are refused. Of a text,
    the first `tokens` tokens count, among the first 64 x `tokens` characters.
    """

    model: str
    tokens: Annotated[int, Ge(1)] = 128

    takes: ClassVar[str] = "texts"
    side: ClassVar[int] = 0

    def fingerprint(self) -> str:
        folder = self._folder()
        files = {path for pattern in _FILES for path in folder.glob(pattern)}
        return digest_of_files(sorted(files))

    def load(self) -> MeanOfStates:
        transformers, folder = self._package("transformers"), self._folder()
        safe = {"local_files_only": True, "trust_remote_code": False}
        transformers.utils.logging.disable_progress_bar()
        try:
            with torch.random.fork_rng(devices=[]):  # no generator moves
                body, found = transformers.AutoModel.from_pretrained(
                    folder, use_safetensors=True, output_loading_info=True, **safe
                )
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        except Exception as error:  # files of others fail in many ways
            raise DataError(
                f"Expected a text encoder with safetensors weights in {folder}; transformers "
                f"cannot load it ({_short(error)}). Choose another model, or complete the folder."
            ) from error
        _check(body, found["missing_keys"], folder)
        network = MeanOfStates(body.float(), tokenizer, self.tokens, int(body.config.hidden_size))
        return network.eval().requires_grad_(False)

    def _folder(self) -> Path:
        """Where the files are; a name of the hub is looked for in its cache, then downloaded."""
        if Path(self.model).is_dir():
            return Path(self.model)
        hub = self._package("huggingface_hub")
        options: dict[str, Any] = {"allow_patterns": list(_FILES)}
        with suppress(Exception):  # not there, or not whole
            return Path(hub.snapshot_download(self.model, local_files_only=True, **options))
        if not may_download():
            raise DataError(
                f"Expected the files of {show(self.model)} on this machine, in the cache of the "
                "hub; they are not there, and nothing is downloaded because a file or a server "
                f"names it. If you want it: hf download {show(self.model)}"
            )
        try:
            return Path(hub.snapshot_download(self.model, **options))
        except Exception as error:  # names, networks and caches fail in many ways
            raise ConfigError(
                f"[data] backbone model = {show(self.model)} should be a folder or a name of the "
                f"hub; it is no folder, and the hub does not give it ({_short(error)}). Check the "
                "spelling, or download it where there is a network and give the folder."
            ) from error

    def _package(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            raise ConfigError(
                f'Backbone "huggingface" needs the package {name}; it is not installed. '
                'Run: pip install "flr[backbones]"'
            ) from None


def _check(body: nn.Module, missing: Iterable[str], folder: Path) -> None:
    """Refuses a network with weights that the files do not have, or that are no numbers."""
    absent = sorted(name for name in missing if not name.startswith("pooler."))  # not used here
    broken = [name for name, value in body.state_dict().items() if not value.isfinite().all()]
    for names, what in ((absent, "missing"), (broken, "infinite or NaN")):
        if names:
            raise DataError(
                f"Expected all weights of the backbone in {folder}, finite; {len(names)} "
                f"are {what}, {cut(names[0], 80)} for one. Choose another model, or get its files "
                "again."
            )


def _short(error: Exception) -> str:
    return cut(f"{type(error).__name__}: {error}", 160)
