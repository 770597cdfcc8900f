"""A federation of simulated clients on this machine; the recorder alone sees the clean labels."""

from __future__ import annotations

import logging
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
    held_out_mask,
    make_benchmark,
    make_server,
    make_sites,
    make_worker_spec,
    threads,
    views_of,
)
from flr.simulation.run import OnRound, ReportFacts, recorder_options, run_federation, write_results

log = logging.getLogger("flr")


@dataclass(frozen=True)
class TrainingData:
    """What a run needs of a data set: raw inputs would lie in memory beside the normalised ones."""

    task_spec: TaskSpec
    sites: SiteTable
    held_out: SiteTable | None  # of the same sites, to choose a model by
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
        sites, true, out = make_sites(dataset, scenario), Truth.of(scenario, dataset).true, None
        if config.eval.validation:
            mask = held_out_mask(config, scenario)
            sites, out, true = sites.where(~mask), sites.where(mask), true.where(~mask)
        return cls(
            task_spec=dataset.task_spec(config.data.augment),
            sites=sites,
            held_out=out,
            test_x=dataset.normalize(dataset.test.x),
            test_y=dataset.test.y,
            clean_x=dataset.normalize(dataset.train.inputs[scenario.benchmark]),
            clean_y=dataset.train.y[scenario.benchmark],
            true=true,
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
    spec = make_worker_spec(config, data.task_spec, data.sites, state, views, data.held_out)
    sizes = data.sites.samples.sizes.tolist()
    with threads(config.train.threads):
        benchmark = make_benchmark(data.clean_x, data.clean_y, spec)
        server = make_server(config, sizes, spec.method, networks, benchmark)
        attack = config.attack.build()
        chosen = attackers(attack.clients, len(scenario.sites), scenario.seed)
        counted = claims(attack, chosen, sizes)
        adversary = Adversary(attack, frozenset(chosen), config.seed, server.buffers, counted)
        workers = min(processes(config), server.per_round)
        with closing(LocalTransport(spec, workers, config.drop, adversary)) as transport:
            recorder = TruthRecorder(
                **recorder_options(config, folder),
                predict=transport.predict,
                logits=transport.logits,
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
    facts = ReportFacts(
        scenario.hash,
        recorder.noise,
        data.name,
        attack_of(config, scenario),
        commonest=recorder.commonest,
    )
    write_results(config, data.task_spec, spec.method, server, folder, facts)


def processes(config: Config) -> int:
    """How many train clients; says so where they are fewer than `workers`."""
    found = len(config.train.of_workers(config.workers))
    if found < config.workers:
        log.warning(
            "One process trains on %s, not %s: each would take some of its memory. For several, "
            'name the device of each: [train] devices = ["%s"] gives all of them this one.',
            *(config.train.main_device, config.workers, config.train.main_device),
        )
    return found


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
