"""Puts a run together from method, scenario, engine and recorder; writes what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flr import trackers
from flr.arrays import Arrays
from flr.client import saved
from flr.client.desk import BenchmarkDesk, Blueprint, predict
from flr.client.fit import load_weights, weights_of
from flr.client.state import StateFiles
from flr.config import Config
from flr.contract import Method, Server
from flr.data.batches import Batches
from flr.data.dataset import Dataset, site_table
from flr.engine.local import LocalTransport
from flr.engine.run import Federation
from flr.report import html, lines, recorder, summary
from flr.report.describe import leaves_the_site
from flr.report.recorder import METRICS, Recorder
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
        server = make_server(config, dataset, scenario, blueprint, weights_of(networks))
        probe = make_recorder(config, dataset, scenario, blueprint, networks, on_round, folder)
        transport = LocalTransport(blueprint, min(config.workers, server.per_round), config.drop)
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
            recorder.truncate(folder, federation.resume())
            federation.run()
        finally:
            transport.close()
            for tracker in probe.trackers:
                tracker.close()
    save_model(config, dataset, method.result(server), folder)
    write_report(config, scenario, probe, method, folder)


def make_blueprint(config: Config, dataset: Dataset, scenario: Scenario, folder: Path) -> Blueprint:
    """What the desks of this run are made from; holds no clean label."""
    batches = Batches.of(dataset)
    if config.data.augment != "auto":
        batches = Batches(config.data.augment, batches.fill)
    x = dataset.normalise(dataset.train.x)
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
    config: Config, dataset: Dataset, scenario: Scenario, blueprint: Blueprint, weights: Arrays
) -> Server:
    """A server before the first round."""
    clients = len(scenario.sites)
    server = Server(
        arrays=weights,
        state={},
        rounds=config.rounds,
        clients=clients,
        per_round=config.train.asked(clients),
        seed=config.seed,
        aggregate=config.aggregate.build(),
        examples=tuple(len(site) for site in scenario.sites),
        benchmark=make_benchmark(dataset, scenario, blueprint),
    )
    blueprint.method.start(server)
    return server


def make_benchmark(
    dataset: Dataset, scenario: Scenario, blueprint: Blueprint
) -> BenchmarkDesk | None:
    """The server's clean samples, where the scenario sets some aside."""
    if not len(scenario.benchmark):
        return None
    clean = dataset.train[scenario.benchmark]
    return BenchmarkDesk(blueprint, dataset.normalise(clean.x), clean.y)


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
    )


def save_model(config: Config, dataset: Dataset, weights: Arrays, folder: Path) -> None:
    """Writes the model file: the same bits for the same weights, wherever and whenever it ran."""
    meta = {
        "model": config.train.model.table("name"),
        "method": [choice.table("name") for choice in config.method],
        "classes": list(dataset.classes),
        "input_shape": list(dataset.input_shape),
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
        seconds=sum(line["seconds"] for line in metrics),
    )
    summary.save(folder, summary.summarise(metrics, facts))
    plots.curves(metrics, folder / html.CURVES, config.label)
    html.run_page(folder, leaves_the_site(method))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Computes with so many threads; the caller's setting comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
