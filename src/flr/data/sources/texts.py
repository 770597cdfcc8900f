"""Texts of the user, in a CSV file or one JSON object a line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flr.core.registry import register
from flr.data.build import assemble
from flr.data.checks import Samples
from flr.data.dataset import Dataset
from flr.data.readers.text_files import read_texts


@register("texts", kind="dataset", title="Texts in a CSV or JSON-lines file")
@dataclass(frozen=True)
class TextFile:
    """Your texts, in any language: a CSV file with a header, or .jsonl with one object a line.

    `text` and `label` are the columns (or keys) that hold texts and classes; `site` may name that
    of the sites, for [partition] kind = "column". The file is UTF-8. A fixed, stratified fifth is
    the test set. Only a pretrained network makes anything of texts: set [data] backbone.
    """

    path: Path
    text: str = "text"
    label: str = "label"
    site: str | None = None

    def load(self) -> Dataset:
        """Classes are the values of the label column, sorted."""
        samples = self._read()
        return assemble(self.path.stem, samples, None, None)

    def names(self) -> tuple[list[str], list[str]]:
        """The lines of the texts, which are for training and for testing."""
        lines = self._read().names
        return lines, lines

    def _read(self) -> Samples:
        return read_texts(self.path, self.text, self.label, self.site)
