"""What any engine needs for a run, made from its config: data, scenario, desks, server, model file.

Nothing here knows a clean label of a site; simulate.py, which measures, does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from flr import aggregate
from flr.arrays import Arrays
from flr.client import pretrained, saved
from flr.client.desk import BenchmarkDesk, Blueprint, Sites, each_network, predict
from flr.client.fit import load_weights, weights_of
from flr.client.state import StateFiles
from flr.config import Config
from flr.contract import MODEL, Benchmark, Method, Server
from flr.data import sources
from flr.data.batches import Batches, shape_after
from flr.data.dataset import Dataset, SiteTable, Subject, site_table
from flr.data.lazy import Inputs, Pictures
from flr.engine.local import piece_of
from flr.errors import ConfigError, DataError
from flr.report.diary import Predict, Views
from flr.scenario import scenario as scenarios
from flr.scenario.noise_input import blur
from flr.scenario.scenario import Scenario


def load_data(config: Config, data: Any = None) -> Dataset:
    """The data set of a config, or the one given in Python."""
    if data is None:
        dataset = config.data.source.build().load()
    elif isinstance(data, Dataset):
        dataset = data
    elif isinstance(data, tuple | list) and len(data) in (2, 4):
        dataset = sources.from_arrays(*data)
    else:
        raise DataError(
            "Expected data as (x, y), (x, y, x_test, y_test) or a Dataset; got "
            f"{type(data).__name__}. For a file, write [data] path = ... in the config instead."
        )
    return sources.subset(dataset, config.data.train, config.data.test)


def load_scenario(config: Config, dataset: Dataset) -> Scenario:
    """The scenario of a config: read from a file, or made from partition, noise and attack."""
    if config.scenario.path is not None:
        scenario = scenarios.load(config.scenario.path)
        scenarios.check_fits(scenario, dataset)
        return scenario
    seed = config.seed if config.scenario.seed is None else config.scenario.seed
    return scenarios.build(
        dataset,
        config.partition.build(),
        config.noise.build(),
        seed,
        config.scenario.benchmark,
        config.attack.build(),
    )


def check_fits(config: Config, dataset: Dataset, scenario: Scenario) -> None:
    """Finds, before anything is written, what only config and data together can get wrong."""
    shape = dataset.input_shape
    networks = check_model(config, shape, len(dataset.classes))
    if config.data.augment not in ("auto", "none") and len(shape) != 3:
        raise ConfigError(
            f'[data] augment = "{config.data.augment}" needs images (channels x height x width); '
            f'the data set has inputs of shape {shape}. Use augment = "none".'
        )
    check_sizes(config, dataset, networks)
    if len(scenario.levels) and isinstance(dataset.train.x, Pictures):
        raise ConfigError(
            f"The scenario has noise on inputs, which needs them in memory; {dataset.name} leaves "
            "its pictures on disk. Use another [noise] kind."
        )
    asked = config.train.asked(len(scenario.sites))
    if config.min_replies > asked:
        raise ConfigError(
            f"min_replies = {config.min_replies} is more than the {asked} clients a round asks "
            f"(participation {config.train.participation} of {len(scenario.sites)} sites). "
            f"Use at most {asked}, or a higher participation."
        )


def check_model(config: Config, shape: tuple[int, ...], classes: int) -> nn.ModuleList:
    """The first network for such data, if the model can be built for it."""
    try:
        factory = config.train.model.build()
        return pretrained.first_networks(config.train, factory, shape, classes, 1, config.seed)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"[train] model = {config.train.model.name!r} should take inputs of shape {shape} and "
            f"{classes} classes; it cannot be built ({error}). Change the model or its options."
        ) from error


def check_sizes(config: Config, dataset: Dataset, networks: nn.ModuleList) -> None:
    """A network that sees images of several sizes has to take them all."""
    about = dataset.subject(config.data.augment)
    shapes = {shape_after(about.augment, about.input_shape), about.test_shape} - {about.input_shape}
    for shape in sorted(shapes):
        try:
            with torch.no_grad():
                networks[0].eval()(torch.zeros(1, *shape))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"[train] model = {config.train.model.name!r} should take images of "
                f"{dataset.input_shape} and, augmented or in the test set, of {shape}; it does not "
                f'({error}). Use a network that averages over space, such as "cnn".'
            ) from error


def make_sites(dataset: Dataset, scenario: Scenario) -> SiteTable:
    """What the sites of a scenario hold: inputs and given labels, no clean one."""
    x = dataset.normalise(dataset.train.x)
    if len(scenario.levels):
        levels = scenario.levels.split(scenario.sizes.tolist())
        x = blur(cast(Tensor, x), scenario.sites, levels, scenario.blur_seed)
    return site_table(x, scenario.sites, scenario.given, len(dataset.classes))


def make_blueprint(
    config: Config,
    subject: Subject,
    sites: Sites,
    state: StateFiles,
    views: Mapping[str, Inputs] | None = None,
) -> Blueprint:
    """What the desks of this run are made from; holds no clean label."""
    return Blueprint(
        method=config.build_method(),
        sites=sites,
        model=config.train.model.build(),
        input_shape=subject.input_shape,
        train=config.train,
        seed=config.seed,
        batches=Batches.of(subject),
        state=state,
        views=views or {},
    )


def make_server(
    config: Config,
    examples: Sequence[int],
    method: Method,
    networks: nn.ModuleList,
    benchmark: Benchmark | None,
) -> Server:
    """A server before the first round; `examples` is how many samples each client has."""
    clients, weights = len(examples), weights_of(networks)
    trained = {MODEL + name for name, _ in networks.named_parameters(remove_duplicate=False)}
    buffers = frozenset(weights.keys() - trained)
    server = Server(
        arrays=weights,
        state={},
        rounds=config.rounds,
        clients=clients,
        per_round=config.train.asked(clients),
        seed=config.seed,
        aggregate=aggregate.knowing(config.aggregate.build(), buffers),
        examples=tuple(examples),
        buffers=buffers,
        benchmark=benchmark,
    )
    method.start(server)
    return server


def make_benchmark(clean_x: Tensor, clean_y: Tensor, blueprint: Blueprint) -> BenchmarkDesk | None:
    """The server's clean samples, where the scenario sets some aside."""
    if len(clean_y):
        return BenchmarkDesk(blueprint, clean_x, clean_y)
    if blueprint.method.supervised:
        raise ConfigError(
            "The method needs clean samples at the server; the saved scenario has set none "
            "aside. Build it again with [scenario] benchmark = 50, say."
        )
    return None


def predict_here(config: Config, networks: nn.ModuleList, test: Inputs) -> Predict:
    """How a server without workers asks the model that was trained: on its test set."""
    method, networks = config.build_method(), networks.to(config.train.device)

    def predicted(weights: Arrays, _: str, rows: Tensor) -> Tensor:
        load_weights(networks, weights)
        pieces = rows.split(piece_of(test))
        return torch.cat([predict(method, networks, test[piece]) for piece in pieces])

    return predicted


def views_of(config: Config, networks: nn.ModuleList, test: Inputs) -> Views | None:
    """The test set by each network and by all, where a method trains several."""
    if len(networks) == 1:
        return None
    networks = networks.to(config.train.device)

    def views(weights: Arrays) -> dict[str, Tensor]:
        load_weights(networks, weights)
        return each_network(networks, test)

    return views


def save_model(config: Config, subject: Subject, weights: Arrays, folder: Path) -> None:
    """Writes the model file: the same bits for the same weights, wherever and whenever it ran."""
    meta = {
        "model": config.train.model.table("name"),
        "method": [choice.table("name") for choice in config.method],
        "classes": list(subject.classes),
        "input_shape": list(subject.test_shape),  # what is classified later is prepared like that
        "mean": list(subject.normalise.mean),
        "std": list(subject.normalise.std),
    }
    saved.save(folder / "model.safetensors", weights, meta)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Computes with so many threads; the caller's setting comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
