"""What the server of a run on Flower has itself, and on what inputs and classes all sites agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from flr.config import Config
from flr.core.errors import ConfigError
from flr.data.dataset import Normalization, TaskSpec
from flr.data.on_disk import Numbers, as_numbers
from flr.data.sources.files import read_samples
from flr.flower.answers import SiteFacts
from flr.flower.node import shapes_differ
from flr.flower.settings import Flower
from flr.flower.site_cache import dtype_of
from flr.models.embedding import Embedder
from flr.models.finetune import refuse_other_inputs
from flr.simulation.build import check_fits, load_data, load_scenario, make_embedder


@dataclass(frozen=True)
class ServerData:
    """The server's own samples, and what it knows of the sites before it has heard them."""

    test: tuple[Numbers, Tensor]
    benchmark: tuple[Tensor, Tensor] | None  # clean samples, for methods that need some
    flower: Flower
    typical: tuple[float, float] | None = None  # mean and deviation of a backbone's features
    task_spec: TaskSpec | None = None  # None: the sites' data decide
    networks: nn.ModuleList | None = None  # those of the first round, where they are built already
    expected: dict[str, int] = field(default_factory=dict)  # sizes of a scenario's sites by name
    needs_bytes: bool = False  # the model has a backbone

    @property
    def advice(self) -> str:
        """What to do when sites are missing."""
        if not self.expected:
            return "Start or mend the missing nodes, or lower flower.min-sites"
        sites = len(self.expected)
        return (
            f"Start {sites} nodes with partition-id 0 to {sites - 1} (in a simulation: "
            f"--federation-config 'num-supernodes={sites}'), or change partition.clients"
        )

    def screen(self, facts: SiteFacts) -> str:
        """Why a site cannot take part; what sites must have in common is settled later."""
        if not self.expected:
            return "" if facts.examples else "it has no samples. Point its `data` to some"
        if self.expected.get(facts.site) == facts.examples:
            return ""
        return (
            "it does not belong to the scenario of this run. Start the nodes with partition-id "
            f"0 to {len(self.expected) - 1}, and the same data set on every machine"
        )


def server_data(config: Config, flower: Flower) -> ServerData:
    """In a scenario all is known, as every node draws the same split; else what is given here."""
    if flower.own_data:
        nothing = (torch.empty(0, 1), torch.empty(0, dtype=torch.int64))
        embed = make_embedder(config, config.data.backbone) if config.data.backbone else None
        test = _read(flower.test, flower, embed) if flower.test else nothing
        clean = None
        if flower.benchmark:
            x, y = _read(flower.benchmark, flower, embed, training=True)
            clean = (x[:], y)
        typical = getattr(embed.backbone, "typical", None) if embed else None
        needs_bytes = config.train.model.is_backbone
        return ServerData(test, clean, flower, needs_bytes=needs_bytes, typical=typical)
    dataset = load_data(config)
    scenario = load_scenario(config, dataset)
    networks = check_fits(config, dataset, scenario)
    chosen = dataset.train[scenario.benchmark]
    return ServerData(
        test=(dataset.test.inputs, dataset.test.y),
        benchmark=(chosen.inputs[:], chosen.y) if len(chosen.y) else None,  # [:] decodes pictures
        flower=flower,
        task_spec=dataset.task_spec(config.data.augment),
        networks=networks,
        expected={f"site-{number}": len(site) for number, site in enumerate(scenario.sites)},
    )


def agree(data: ServerData, facts: Sequence[SiteFacts]) -> tuple[TaskSpec | None, dict[str, str]]:
    """What is classified, and the sites that have something else, each with the reason.

    The server's own samples decide what inputs look like, or else most sites; None without either.
    """
    if data.task_spec is not None:
        return data.task_spec, {}
    flower = data.flower
    form: tuple[tuple[int, ...], str] | None = None
    if facts:
        form = Counter((f.shape, f.dtype) for f in facts).most_common(1)[0][0]
    for x, _ in filter(None, (data.benchmark, data.test)):
        if len(x):
            form = (tuple(x.shape[1:]), dtype_of(x))
    if form is None:
        return None, {}
    shape, dtype = form
    if data.needs_bytes:
        refuse_other_inputs(dtype)
    misfits = {
        f.site: shapes_differ(f.shape, shape)
        if f.shape != shape
        else f"its inputs are {f.dtype}, the federation's {dtype}. Prepare them alike"
        for f in facts
        if (f.shape, f.dtype) != form
    }
    if flower.augment != "none" and len(shape) != 3:
        raise ConfigError(
            f'flower.augment = "{flower.augment}" needs images (channels x height x width); the '
            f'inputs have shape {shape}. Use flower.augment = "none".'
        )
    # without numbers of their own, bytes become -1 to 1, and floats stay as they are, unless a
    # backbone says what its features are like: sites that measure together would have to share
    mean, std = data.typical or ((127.5, 127.5) if dtype == "uint8" else (0.0, 1.0))
    normalize = Normalization(
        _each(flower.mean or (mean,), shape, "mean"), _each(flower.std or (std,), shape, "std")
    )
    return TaskSpec(flower.classes, shape, shape, normalize, flower.augment), misfits


def _each(numbers: tuple[float, ...], shape: tuple[int, ...], key: str) -> tuple[float, ...]:
    """One number for each channel or feature."""
    if len(numbers) == 1:
        return numbers * shape[0]
    if len(numbers) != shape[0]:
        raise ConfigError(
            f"flower.{key} should be one number, or {shape[0]} as the inputs have channels or "
            f"features (shape {shape}); it has {len(numbers)}. Correct it."
        )
    return numbers


def _read(
    path: str, flower: Flower, embed: Embedder | None, *, training: bool = False
) -> tuple[Numbers, Tensor]:
    size, how = flower.size or None, embed.reading if embed else {}
    x, y, _, _ = read_samples(
        Path(path), flower.classes, flower.label, size, training=training, **how
    )
    if y is None:
        raise ConfigError(f"Expected labelled samples at {path}; there are no labels. Add them.")
    return (embed(x) if embed else as_numbers(x)), y
