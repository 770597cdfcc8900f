"""Puts a run together from method, scenario, engine and recorder; writes what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from flr import aggregate, trackers
from flr.arrays import Arrays
from flr.client import pretrained, saved
from flr.client.desk import BenchmarkDesk, Blueprint, each_network, predict
from flr.client.fit import load_weights, weights_of
from flr.client.state import StateFiles
from flr.config import Config
from flr.contract import MODEL, Method, Server
from flr.data.batches import Batches, shape_after
from flr.data.dataset import Dataset, site_table
from flr.data.lazy import Inputs, Pictures
from flr.engine.attack import Adversary
from flr.engine.local import LocalTransport
from flr.engine.run import Federation
from flr.errors import ConfigError, RunError
from flr.report import html, lines, recorder, summary
from flr.report.describe import leaves_the_site
from flr.report.recorder import METRICS, Recorder
from flr.scenario.attack import attackers
from flr.scenario.noise_input import blur
from flr.scenario.oracle import Oracle
from flr.scenario.scenario import Scenario

OnRound = Callable[[dict[str, Any]], None]


def federate(
    config: Config, dataset: Dataset, scenario: Scenario, folder: Path, on_round: OnRound | None
) -> None:
    """Trains, or goes on training, in a run folder that holds config and scenario."""
    blueprint = make_blueprint(config, dataset, scenario, folder)
    method = blueprint.method
    with threads(config.train.threads):
        networks = blueprint.networks()
        server = make_server(config, dataset, scenario, blueprint, networks)
        probe = make_recorder(config, dataset, scenario, blueprint, networks, on_round, folder)
        workers = min(config.workers, server.per_round)
        adversary = make_adversary(config, scenario, server.buffers)
        transport = LocalTransport(blueprint, workers, config.drop, adversary)
        federation = Federation(
            method=method,
            server=server,
            transport=transport,
            state=blueprint.state,
            folder=folder / "checkpoint",
            min_replies=config.min_replies,
            checkpoint_every=config.checkpoint_every,
            probe=probe,
        )
        try:
            recorder.truncate(folder, federation.resume(recorder.recorded(folder)))
            federation.run()
        except OSError as error:
            raise RunError(
                f"Expected to write to {folder}; the system says: {error}. Make room or mend the "
                f"folder, then go on with `flr resume {folder}`."
            ) from error
        finally:
            transport.close()
            probe.close()
    save_model(config, dataset, method.result(server), folder)
    write_report(config, scenario, probe, method, folder)


def check_fits(config: Config, dataset: Dataset, scenario: Scenario) -> None:
    """Finds, before anything is written, what only config and data together can get wrong."""
    shape, classes = dataset.input_shape, len(dataset.classes)
    try:
        factory = config.train.model.build()
        networks = pretrained.first_networks(config.train, factory, shape, classes, 1, config.seed)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"[train] model = {config.train.model.name!r} should take inputs of shape {shape} and "
            f"{classes} classes; it cannot be built ({error}). Change the model or its options."
        ) from error
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


def check_sizes(config: Config, dataset: Dataset, networks: nn.ModuleList) -> None:
    """A network that sees images of several sizes has to take them all."""
    kind = dataset.augment if config.data.augment == "auto" else config.data.augment
    shapes = {shape_after(kind, dataset.input_shape), dataset.test_shape} - {dataset.input_shape}
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


def make_blueprint(config: Config, dataset: Dataset, scenario: Scenario, folder: Path) -> Blueprint:
    """What the desks of this run are made from; holds no clean label."""
    batches = Batches.of(dataset)
    if config.data.augment != "auto":
        batches = Batches(config.data.augment, batches.fill)
    x = dataset.normalise(dataset.train.x)
    if len(scenario.levels):
        levels = scenario.levels.split(scenario.sizes.tolist())
        x = blur(cast(Tensor, x), scenario.sites, levels, scenario.blur_seed)
    return Blueprint(
        method=config.build_method(),
        sites=site_table(x, scenario.sites, scenario.given, len(dataset.classes)),
        model=config.train.model.build(),
        input_shape=dataset.input_shape,
        train=config.train,
        seed=config.seed,
        batches=batches,
        state=StateFiles(folder / "checkpoint" / "state"),
    )


def make_server(
    config: Config,
    dataset: Dataset,
    scenario: Scenario,
    blueprint: Blueprint,
    networks: nn.ModuleList,
) -> Server:
    """A server before the first round."""
    clients, weights = len(scenario.sites), weights_of(networks)
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
        examples=tuple(len(site) for site in scenario.sites),
        buffers=buffers,
        benchmark=make_benchmark(dataset, scenario, blueprint),
    )
    blueprint.method.start(server)
    return server


def make_adversary(config: Config, scenario: Scenario, buffers: frozenset[str]) -> Adversary:
    """The attackers of this run; often none."""
    attack = config.attack.build()
    chosen = attackers(attack.clients, len(scenario.sites), scenario.seed)
    return Adversary(attack, frozenset(chosen), config.seed, buffers)


def make_benchmark(
    dataset: Dataset, scenario: Scenario, blueprint: Blueprint
) -> BenchmarkDesk | None:
    """The server's clean samples, where the scenario sets some aside."""
    if not len(scenario.benchmark):
        if blueprint.method.supervised:
            raise ConfigError(
                "The method needs clean samples at the server; the saved scenario has set none "
                "aside. Build it again with [scenario] benchmark = 50, say."
            )
        return None
    x, y = dataset.train.x[scenario.benchmark], dataset.train.y[scenario.benchmark]
    return BenchmarkDesk(blueprint, dataset.normalise(x), y)


def make_recorder(
    config: Config,
    dataset: Dataset,
    scenario: Scenario,
    blueprint: Blueprint,
    networks: nn.ModuleList,
    on_round: OnRound | None,
    folder: Path,
) -> Recorder:
    """The probe of this run; it alone sees the clean labels."""
    networks = networks.to(config.train.device)

    def predicted(weights: Arrays, x: Tensor) -> Tensor:
        load_weights(networks, weights)
        return predict(blueprint.method, networks, x)

    def views(weights: Arrays, x: Inputs) -> dict[str, Tensor]:
        load_weights(networks, weights)
        return each_network(networks, x)

    return Recorder(
        folder=folder,
        predict=predicted,
        test_x=dataset.normalise(dataset.test.x),
        test_y=dataset.test.y,
        classes=dataset.classes,
        table=blueprint.sites,
        true=Oracle.of(scenario, dataset).true,
        nominal=scenario.nominal,
        rounds=config.rounds,
        every=config.eval.every,
        memorization_every=config.eval.memorization_every,
        trackers=trackers.make(config.trackers, folder),
        on_round=on_round,
        views=views if len(networks) > 1 else None,
        verified=dataset.verified,
    )


def save_model(config: Config, dataset: Dataset, weights: Arrays, folder: Path) -> None:
    """Writes the model file: the same bits for the same weights, wherever and whenever it ran."""
    meta = {
        "model": config.train.model.table("name"),
        "method": [choice.table("name") for choice in config.method],
        "classes": list(dataset.classes),
        "input_shape": list(dataset.test_shape),  # what is classified later is prepared like that
        "mean": list(dataset.normalise.mean),
        "std": list(dataset.normalise.std),
    }
    saved.save(folder / "model.safetensors", weights, meta)


def write_report(
    config: Config, scenario: Scenario, probe: Recorder, method: Method, folder: Path
) -> None:
    """Summary, picture and page, from what the recorder wrote down."""
    from flr.report import plots  # matplotlib takes a second, and only a finished run needs it

    metrics = lines.read(folder / METRICS)
    facts = summary.Facts(
        method=config.label,
        seed=config.seed,
        rounds=config.rounds,
        scenario=scenario.hash,
        noise=probe.noise,
        attack=attack_of(config, scenario),
        seconds=sum(line["seconds"] for line in metrics),
    )
    summary.save(folder, summary.summarise(metrics, facts))
    plots.curves(metrics, folder / html.CURVES, config.label)
    html.run_page(folder, leaves_the_site(method))


def attack_of(config: Config, scenario: Scenario) -> dict[str, Any] | None:
    """The attack with its settings and attackers; a saved scenario may have brought it."""
    found = scenario.spec.get("attack")
    if config.attack.name != "none":
        found = config.attack.table("kind")
    if found is None:
        return None
    chosen = attackers(found["clients"], len(scenario.sites), scenario.seed)
    return {**found, "attackers": list(chosen)}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Computes with so many threads; the caller's setting comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
