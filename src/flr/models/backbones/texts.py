"""Texts as numbers of tokens, by the vocabulary that a network was trained with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flr.config.errors import cut
from flr.core.errors import ConfigError, DataError
from flr.data.paths import require_file

_CHARACTERS = 64  # of a text, for each token that counts; words have 4 to 5 for each


class Vocabulary:
    """A file tokenizer.json; of a text, the first `tokens` tokens count.

    They are looked for in the first 64 x `tokens` characters, so that a whole book costs no more
    than its beginning. With `marks`, those that the network saw around each text are among them.
    """

    def __init__(self, path: Path, tokens: int, backbone: str, marks: bool = True) -> None:
        self._tokenizer = _read(path, backbone)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(tokens)
        self._tokens = tokens
        self._marks = marks

    def tokens_of(self, text: str) -> list[int]:
        """The numbers of a text's tokens. Any text has some, yet without marks an empty one none.

        Texts go one by one: the package's own batches start threads, which a fork does not survive.
        """
        found = self._tokenizer.encode(
            beginning(text, self._tokens), add_special_tokens=self._marks
        )
        return list(found.ids)


def beginning(text: str, tokens: int) -> str:
    """As much of a text as is looked at, without halves of characters, which no UTF-8 has."""
    return text[: _CHARACTERS * tokens].encode("utf-8", "replace").decode("utf-8")


def each(texts: Sequence[str], encode: Callable[[str], Tensor], width: int) -> Tensor:
    """The features of every text, one at a time and without padding.

    So a text has the same bits whatever stands beside it. On one thread that takes as long as
    batches that are padded to multiples of 32 tokens (MiniLM: 6 ms for a text of 20 tokens, 28 ms
    for one of 128).
    """
    return torch.stack([encode(text) for text in texts]) if texts else torch.zeros((0, width))


def _read(path: Path, backbone: str) -> Any:
    require_file(path, "the vocabulary of the backbone")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ConfigError(
            f'Backbone "{backbone}" needs the package tokenizers for its vocabulary; it is not '
            'installed. Run: pip install "flr[backbones]"'
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain exceptions
        raise DataError(
            f"Expected a vocabulary of the package tokenizers at {path}; it cannot be read "
            f"({cut(str(error), 160)}). Install the package it comes from again."
        ) from error
