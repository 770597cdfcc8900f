"""What the server itself holds, and how it settles what is classified where sites have the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from flr.assemble import check_fits, load_data, load_scenario
from flr.config import Config
from flr.data import sources
from flr.data.dataset import Normalisation, Subject
from flr.data.lazy import Inputs
from flr.errors import ConfigError
from flr.flower.node import shapes_differ
from flr.flower.roll import Facts
from flr.flower.settings import Flower

Labelled = tuple[Inputs, Tensor]

_MIDDLE = 127.5  # of a byte: images become numbers from -1 to 1


@dataclass(frozen=True)
class Holdings:
    """The server's own samples, and what it knows of the sites before it has heard them."""

    test: Labelled
    benchmark: tuple[Tensor, Tensor] | None
    subject: Subject | None  # None: the sites' data decide
    flower: Flower
    expected: dict[str, int]  # sites of a scenario with their sizes; empty with own data

    @property
    def advice(self) -> str:
        """What to do when sites are missing."""
        if self.expected:
            return (
                f"Start {len(self.expected)} nodes with partition-id 0 to "
                f"{len(self.expected) - 1} (in a simulation: --federation-config "
                f"'num-supernodes={len(self.expected)}'), or change partition.clients"
            )
        return "Start or mend the missing nodes, or lower flower.min-sites"

    def screen(self, facts: Facts) -> str:
        """Why a site cannot take part; what sites must have in common is settled later."""
        if self.expected and self.expected.get(facts.site) != facts.examples:
            return (
                "it does not belong to the scenario of this run. Start the nodes with partition-id "
                f"0 to {len(self.expected) - 1}, and the same data set on every machine"
            )
        return ""


def from_scenario(config: Config) -> Holdings:
    """All is known: every node draws the same split from the config."""
    dataset = load_data(config)
    scenario = load_scenario(config, dataset)
    check_fits(config, dataset, scenario)
    clean = None
    if len(scenario.benchmark):
        chosen = dataset.train[scenario.benchmark]
        clean = (chosen.x[:], chosen.y)  # decodes pictures on disk
    sizes = {f"site-{number}": len(site) for number, site in enumerate(scenario.sites)}
    subject = dataset.subject(config.data.augment)
    return Holdings((dataset.test.x, dataset.test.y), clean, subject, Flower(), sizes)


def own_holdings(flower: Flower) -> Holdings:
    """With data at the sites, the server has samples only if it is given some."""
    nothing: Labelled = (torch.empty(0, 1), torch.empty(0, dtype=torch.int64))
    test = _read(flower.test, flower) if flower.test else nothing
    clean = _read(flower.benchmark, flower, training=True) if flower.benchmark else None
    return Holdings(test, clean, None, flower, {})


def agree(holdings: Holdings, facts: Sequence[Facts]) -> tuple[Subject | None, dict[str, str]]:
    """What is classified, and the sites that have something else, each with the reason.

    The server's own samples decide what inputs look like, or else most sites; None without either.
    """
    if holdings.subject is not None:
        return holdings.subject, {}
    forms = Counter((f.shape, f.dtype) for f in facts).most_common(1)
    form = forms[0][0] if forms else None
    for x, _ in filter(None, (holdings.benchmark, holdings.test)):
        if isinstance(x, Tensor) and len(x):
            form = (tuple(x.shape[1:]), str(x.dtype).removeprefix("torch."))
    if form is None:
        return None, {}
    shape, dtype = form
    misfits = {
        f.site: shapes_differ(f.shape, shape)
        if f.shape != shape
        else f"its inputs are {f.dtype}, the federation's {dtype}. Prepare them alike"
        for f in facts
        if (f.shape, f.dtype) != (shape, dtype)
    }
    flower = holdings.flower
    if flower.augment != "none" and len(shape) != 3:
        raise ConfigError(
            f'flower.augment = "{flower.augment}" needs images (channels x height x width); the '
            f'inputs have shape {shape}. Use flower.augment = "none".'
        )
    normalise = Normalisation(
        _each(flower.mean, _MIDDLE if dtype == "uint8" else 0.0, shape, "mean"),
        _each(flower.std, _MIDDLE if dtype == "uint8" else 1.0, shape, "std"),
    )
    return Subject(flower.classes, shape, shape, normalise, flower.augment), misfits


def _each(
    given: tuple[float, ...], default: float, shape: tuple[int, ...], key: str
) -> tuple[float, ...]:
    """One number for each channel or feature."""
    numbers = given or (default,)
    if len(numbers) == 1:
        numbers = numbers * shape[0]
    if len(numbers) != shape[0]:
        raise ConfigError(
            f"flower.{key} should be one number, or {shape[0]} as the inputs have channels or "
            f"features (shape {shape}); it has {len(numbers)}. Correct it."
        )
    return numbers


def _read(path: str, flower: Flower, *, training: bool = False) -> tuple[Tensor, Tensor]:
    size = flower.size or None
    x, y, _, _ = sources.read(Path(path), flower.classes, flower.label, size, training=training)
    if y is None:
        raise ConfigError(f"Expected labelled samples at {path}; there are no labels. Add them.")
    return x, y
