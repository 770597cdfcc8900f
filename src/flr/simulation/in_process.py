"""A federation of simulated clients on this machine; the recorder alone sees the clean labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from flr.aggregate.claims import capped
from flr.client.state import StateFiles
from flr.client.what_leaves import common_words
from flr.config import Config
from flr.data.dataset import Dataset, Ragged, SiteTable, TaskSpec
from flr.data.on_disk import Numbers
from flr.engine.adversary import Adversary
from flr.engine.local import LocalTransport
from flr.report.recorder import SITES, TEST
from flr.report.truth_recorder import TruthRecorder
from flr.scenario.attacks.common import Attack, attackers
from flr.scenario.scenario import Scenario
from flr.scenario.truth import Truth
from flr.simulation.build import (
    make_benchmark,
    make_server,
    make_sites,
    make_worker_spec,
    threads,
    views_of,
)
from flr.simulation.run import OnRound, ReportFacts, recorder_options, run_federation, write_results


@dataclass(frozen=True)
class TrainingData:
    """What a run needs of a data set: raw inputs would lie in memory beside the normalised ones."""

    task_spec: TaskSpec
    sites: SiteTable
    test_x: Numbers
    test_y: Tensor
    clean_x: Tensor  # at the server; often none
    clean_y: Tensor
    true: Ragged  # for the recorder alone
    verified: bool
    name: str  # of the data set

    @classmethod
    def of(cls, config: Config, dataset: Dataset, scenario: Scenario) -> TrainingData:
        """Everything normalised."""
        return cls(
            task_spec=dataset.task_spec(config.data.augment),
            sites=make_sites(dataset, scenario),
            test_x=dataset.normalize(dataset.test.x),
            test_y=dataset.test.y,
            clean_x=dataset.normalize(dataset.train.inputs[scenario.benchmark]),
            clean_y=dataset.train.y[scenario.benchmark],
            true=Truth.of(scenario, dataset).true,
            verified=dataset.verified,
            name=dataset.name,
        )


def run_in_process(
    config: Config,
    data: TrainingData,
    scenario: Scenario,
    networks: nn.ModuleList,
    folder: Path,
    on_round: OnRound | None,
) -> None:
    """Trains, or goes on training, in a run folder that holds config and scenario.

    `networks` are those that the first round starts from.
    """
    state = StateFiles(folder / "checkpoint" / "state")
    views = {TEST: data.test_x, SITES: data.sites.x}
    spec = make_worker_spec(config, data.task_spec, data.sites, state, views)
    with threads(config.train.threads):
        benchmark = make_benchmark(data.clean_x, data.clean_y, spec)
        server = make_server(config, scenario.sizes.tolist(), spec.method, networks, benchmark)
        attack = config.attack.build()
        chosen = attackers(attack.clients, len(scenario.sites), scenario.seed)
        counted = claims(attack, chosen, scenario.sizes.tolist())
        adversary = Adversary(attack, frozenset(chosen), config.seed, server.buffers, counted)
        workers = min(config.workers, server.per_round)
        with closing(LocalTransport(spec, workers, config.drop, adversary)) as transport:
            recorder = TruthRecorder(
                **recorder_options(config, folder),
                predict=transport.predict,
                test_y=data.test_y,
                classes=data.task_spec.classes,
                table=data.sites,
                true=data.true,
                nominal=scenario.nominal,
                memorization_every=config.eval.memorization_every,
                on_round=on_round,
                views=views_of(config, networks, data.test_x),
                verified=data.verified,
            )
            again = f"`flr resume {folder}`"
            words = common_words(networks[0], len(data.task_spec.classes))
            run_federation(
                config, spec.method, server, transport, state, recorder, folder, again, words
            )
    facts = ReportFacts(scenario.hash, recorder.noise, data.name, attack_of(config, scenario))
    write_results(config, data.task_spec, spec.method, server, folder, facts)


def claims(attack: Attack, attackers: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """How many samples count of each client whose number claims have changed."""
    claimed = [attack.samples(n) if k in attackers else n for k, n in enumerate(sizes)]
    if claimed == list(sizes):
        return {}
    return {k: n for k, n in enumerate(capped(claimed)) if n != sizes[k]}


def attack_of(config: Config, scenario: Scenario) -> dict[str, Any] | None:
    """The attack with its settings and attackers; a saved scenario may have brought it."""
    found = scenario.spec.get("attack")
    if config.attack.name != "none":
        found = config.attack.table("kind")
    if found is None:
        return None
    chosen = attackers(found["clients"], len(scenario.sites), scenario.seed)
    return {**found, "attackers": list(chosen)}
