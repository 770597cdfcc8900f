"""A whole run on this machine: the engine with simulated clients, the recorder, the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from flr import trackers
from flr.assemble import (
    make_benchmark,
    make_blueprint,
    make_server,
    make_sites,
    save_model,
    threads,
    views_of,
)
from flr.client.state import StateFiles
from flr.config import Config
from flr.contract import Method
from flr.data.dataset import Dataset, Parts, SiteTable, Subject
from flr.data.lazy import Inputs
from flr.engine.attack import Adversary
from flr.engine.local import LocalTransport
from flr.engine.run import Federation
from flr.errors import RunError
from flr.report import diary, html, lines, summary
from flr.report.describe import leaves_the_site
from flr.report.diary import METRICS, SITES, TEST, Views
from flr.report.recorder import Recorder
from flr.scenario.attack import attackers
from flr.scenario.oracle import Oracle
from flr.scenario.scenario import Scenario

OnRound = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Material:
    """What a run needs of a data set: raw inputs would lie in memory beside the normalised ones."""

    subject: Subject
    sites: SiteTable
    test_x: Inputs
    test_y: Tensor
    clean_x: Tensor  # at the server; often none
    clean_y: Tensor
    true: Parts  # for the recorder alone
    verified: bool

    @classmethod
    def of(cls, config: Config, dataset: Dataset, scenario: Scenario) -> Material:
        """Everything normalised."""
        return cls(
            subject=dataset.subject(config.data.augment),
            sites=make_sites(dataset, scenario),
            test_x=dataset.normalise(dataset.test.x),
            test_y=dataset.test.y,
            clean_x=dataset.normalise(dataset.train.x[scenario.benchmark]),
            clean_y=dataset.train.y[scenario.benchmark],
            true=Oracle.of(scenario, dataset).true,
            verified=dataset.verified,
        )


def federate(
    config: Config, material: Material, scenario: Scenario, folder: Path, on_round: OnRound | None
) -> None:
    """Trains, or goes on training, in a run folder that holds config and scenario."""
    subject, sites = material.subject, material.sites
    state = StateFiles(folder / "checkpoint" / "state")
    views = {TEST: material.test_x, SITES: sites.x}
    blueprint = make_blueprint(config, subject, sites, state, views)
    method = blueprint.method
    with threads(config.train.threads):
        networks = blueprint.networks()
        benchmark = make_benchmark(material.clean_x, material.clean_y, blueprint)
        server = make_server(config, scenario.sizes.tolist(), method, networks, benchmark)
        workers = min(config.workers, server.per_round)
        adversary = make_adversary(config, scenario, server.buffers)
        transport = LocalTransport(blueprint, workers, config.drop, adversary)
        shown = views_of(config, networks, views[TEST])
        probe = make_recorder(config, material, scenario, transport, shown, on_round, folder)
        federation = Federation(
            method=method,
            server=server,
            transport=transport,
            state=state,
            folder=folder / "checkpoint",
            min_replies=config.min_replies,
            checkpoint_every=config.checkpoint_every,
            probe=probe,
        )
        try:
            diary.truncate(folder, federation.resume(diary.recorded(folder)))
            federation.run()
        except OSError as error:
            raise RunError(
                f"Expected to write to {folder}; the system says: {error}. Make room or mend the "
                f"folder, then go on with `flr resume {folder}`."
            ) from error
        finally:
            transport.close()
            probe.close()
    save_model(config, subject, method.result(server), folder)
    write_report(config, scenario, probe, method, folder)


def make_adversary(config: Config, scenario: Scenario, buffers: frozenset[str]) -> Adversary:
    """The attackers of this run; often none."""
    attack = config.attack.build()
    chosen = attackers(attack.clients, len(scenario.sites), scenario.seed)
    return Adversary(attack, frozenset(chosen), config.seed, buffers)


def make_recorder(
    config: Config,
    material: Material,
    scenario: Scenario,
    transport: LocalTransport,
    views: Views | None,
    on_round: OnRound | None,
    folder: Path,
) -> Recorder:
    """The probe of this run; it alone sees the clean labels."""
    return Recorder(
        folder=folder,
        predict=transport.predict,
        test_y=material.test_y,
        classes=material.subject.classes,
        table=transport.sites,
        true=material.true,
        nominal=scenario.nominal,
        rounds=config.rounds,
        every=config.eval.every,
        memorization_every=config.eval.memorization_every,
        trackers=trackers.make(config.trackers, folder),
        on_round=on_round,
        views=views,
        verified=material.verified,
    )


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
