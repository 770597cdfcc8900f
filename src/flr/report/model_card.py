"""The card beside a model file: what who gets the file, and not the run, has to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flr.config import Config
from flr.core.arrays import write_atomically
from flr.core.plain_text import plain
from flr.report import html
from flr.report.formatting import markdown

NAME = "model-card.md"
_LISTED = 30  # classes that are named


def write(
    folder: Path,
    config: Config,
    summary: Mapping[str, Any],
    model: Mapping[str, Any],
    leaves: Sequence[str],
    data: str,
) -> Path:
    """Writes `model-card.md` beside `model.safetensors`.

    Args:
        folder: Where the model is.
        config: What it was trained with. Paths of this machine stay out of the card.
        summary: What `summary.json` holds.
        model: What the model file says of itself: network, method, classes, shape.
        leaves: What has left a site, in words.
        data: What the data set is called.

    Returns:
        The card's path.
    """
    environment = html.environment("flr.report").overlay(autoescape=False)
    environment.filters |= {"plain": lambda text: markdown(plain(text))}
    text = environment.get_template("model_card.md").render(
        title=f"{summary['method']} on {data}",
        config=config,
        summary=summary,
        model=model,
        classes=model["classes"][:_LISTED],
        more=max(len(model["classes"]) - _LISTED, 0),
        leaves=leaves,
        data=data,
        verdict=html.verdict(dict(summary)),
    )
    write_atomically(folder / NAME, text)
    return folder / NAME
