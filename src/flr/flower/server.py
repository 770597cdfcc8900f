"""The server's side of a run on Flower: which sites take part, the rounds, the report."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid
from torch import nn

from flr.client.state import NoState
from flr.client.what_leaves import common_words
from flr.client.worker import BenchmarkWorker
from flr.config import Config, own_runs
from flr.core.arrays import write_atomically
from flr.core.errors import ConfigError, DataError
from flr.data.dataset import TaskSpec
from flr.engine.federation import Transport
from flr.flower import differential_privacy, settings
from flr.flower.agreement import ServerData, agree, server_data
from flr.flower.gathering import gather
from flr.flower.handshake import Handshake, in_order
from flr.flower.membership import Membership
from flr.flower.norms import UpdateNorms
from flr.flower.report import make_recorder, report_facts
from flr.flower.run_spec import RunSpec
from flr.flower.settings import Flower
from flr.flower.site_cache import OwnSite
from flr.flower.transport import FlowerTransport
from flr.models.networks import weights_of
from flr.report import html, summary
from flr.report.metrics import asks_sites
from flr.report.recorder import TEST
from flr.simulation import run_record
from flr.simulation.build import buffers_of, first_networks, make_server, make_worker_spec, threads
from flr.simulation.folders import first_free, locked, new_folder
from flr.simulation.run import run_federation, write_results

log = logging.getLogger("flr")

TransportMod = Callable[[Transport], Transport]


def serve(grid: Grid, run_config: Mapping[str, Any], mods: Sequence[TransportMod] = ()) -> None:
    """Runs one experiment from beginning to end, or goes on with one that was stopped.

    Each of `mods` puts something around what asks the sites.
    """
    flower, tree, overrides = settings.read(run_config)
    if flower.resume:
        resume(grid, flower, mods)
        return
    config, data = prepare(flower, tree, overrides)
    free = first_free(Path("runs") / f"{config.label}-{config.seed}")
    folder = Path(flower.out) if flower.out else free
    if (folder / "config.toml").exists():
        raise DataError(
            f"Expected a new folder as flower.out; {folder} already holds a run. Go on with it by "
            "flower.resume=true, or choose another flower.out."
        )
    new_folder(folder)
    log.info("Run folder: %s", folder.resolve())
    with locked(folder):
        run_spec = RunSpec.of(secrets.token_hex(8), config, flower.classes)
        keys = new_keys(grid, flower)
        registered = keys is not None and flower.own_data
        handshake = Handshake(grid, run_spec.to_note(), data.screen, keys, registered)
        task_spec = gather(handshake, data, flower)
        sites = tuple(in_order(handshake.nodes))
        if flower.own_data:
            config = settings.resolve(flower, tree, overrides, len(sites))
        networks = networks_for(task_spec, data, config, flower)
        examples = tuple(handshake.facts[site].examples for site in sites)
        membership = Membership(run_spec.experiment, sites, examples, task_spec, flower, keys)
        membership.save(folder)
        own_runs.seal(folder, config)
        # last: it can be resumed now
        write_atomically(folder / "config.toml", config.to_toml(), sync=True)
        run_record.begin(folder, config)
        handshake.screen = membership.screen
        federate(handshake, config, membership, data, networks, folder, mods)


def resume(grid: Grid, asked: Flower, mods: Sequence[TransportMod] = ()) -> None:
    """Continues a run with the config and the sites that it began with."""
    folder = Path(asked.out)
    if not asked.out or not (folder / "config.toml").is_file():
        raise DataError(
            f"Expected the folder of a run that has begun as flower.out; {asked.out!r} is none. "
            "Give the folder that the log of the stopped run names."
        )
    membership, config = Membership.load(folder), own_runs.load_run(folder, trust=asked.trust)
    config = config.here()
    log.info("Going on with %s; it keeps the settings it began with.", folder.resolve())
    free = ("wait", "timeout", "deadline", "quorum", "metrics")  # not what is learned
    flower = membership.flower.model_copy(update={key: getattr(asked, key) for key in free})
    membership = replace(membership, flower=flower, attempt=membership.attempt + 1)
    data = server_data(config, flower)
    networks = networks_for(membership.task_spec, data, config, flower)
    run_spec = RunSpec.of(membership.experiment, config, flower.classes)
    keys = membership.keys
    registered = keys is not None and flower.own_data
    handshake = Handshake(grid, run_spec.to_note(), membership.screen, keys, registered)
    with locked(folder):
        run_record.go_on(folder, config)
        membership.save(folder)
        there = handshake.wait_for(lambda s: len(s) == len(membership.sites), flower.wait)
        if missing := in_order(set(membership.sites) - there):
            log.warning("Not there: %s. %s", ", ".join(missing), handshake.complaints())
        federate(handshake, config, membership, data, networks, folder, mods)


def new_keys(grid: Grid, flower: Flower) -> dict[str, str] | None:
    """Where sites' keys are remembered, empty yet; None where names are not bound to keys.

    By itself with TLS, because nodes have keys of their own there. Flower's grid has no public
    word for that; one that says nothing is taken for a grid without.
    """
    if flower.node_keys == "auto":
        return {} if getattr(grid, "_insecure", True) is False else None
    return {} if flower.node_keys else None


def prepare(
    flower: Flower, tree: Mapping[str, Any], overrides: list[str]
) -> tuple[Config, ServerData]:
    """Everything that can be found wrong before a node is touched."""
    config = settings.resolve(flower, tree, overrides)
    refuse(config, flower)
    data = server_data(config, flower)
    task_spec, _ = agree(data, [])
    if task_spec is not None:
        data = replace(data, networks=networks_for(task_spec, data, config, flower))
    return config, data


def networks_for(
    task_spec: TaskSpec, data: ServerData, config: Config, flower: Flower
) -> nn.ModuleList:
    """The first networks, built unless they are there; refuses those that cannot be private."""
    networks = data.networks
    if networks is None:
        networks = first_networks(config, task_spec)
    differential_privacy.check_weights(flower, weights_of(networks), buffers_of(networks))
    return networks


def refuse(config: Config, flower: Flower) -> None:
    """Finds, before a node is touched, what cannot run on Flower; all of it at once."""
    problems = list(differential_privacy.conflicts(config, flower))
    if config.drop:
        problems.append("drop is for simulated clients; on Flower nodes vanish by themselves.")
    if config.attack.name != "none":
        problems.append("[attack] is for simulated clients; use `flr run` to study attacks.")
    if config.eval.validation:
        problems.append(
            "[eval] validation has simulated sites hold labels out; on Flower no site is asked to "
            "count its own. Remove validation, select and patience, or try them with `flr run`."
        )
    if asks_sites(config.eval.metrics):
        problems.append(
            "[eval] metrics names worst-site or site-accuracy, for which the sites' true labels "
            "are needed; on Flower nobody has them. Leave these two out."
        )
    sites = config.partition.build().sites if config.scenario.path is None else None
    if not flower.own_data and sites is not None and flower.min_sites > sites:
        problems.append(f"flower.min-sites = {flower.min_sites}; the scenario has {sites} sites.")
    if flower.own_data and flower.min_sites < 1:
        problems.append("flower.min-sites should say how many sites to wait for, at least 1.")
    if flower.own_data and config.build_method().traits.supervised and not flower.benchmark:
        problems.append(
            f'method "{config.label}" needs clean samples at the server: set flower.benchmark.'
        )
    if problems:
        raise ConfigError("\n".join(["This cannot run on Flower. Correct these:", *problems]))


def federate(
    handshake: Handshake,
    config: Config,
    membership: Membership,
    data: ServerData,
    networks: nn.ModuleList,
    folder: Path,
    mods: Sequence[TransportMod] = (),
) -> None:
    """The same rounds as in process, with a checkpoint after every one."""
    task_spec, flower = membership.task_spec, membership.flower
    membership.warn_of_large_claims()
    config = config.model_copy(update={"checkpoint_every": 1})
    run_spec = RunSpec.of(membership.experiment, config, flower.classes)
    if flower.own_data:
        run_spec = replace(run_spec, task_spec=task_spec)
    own, views = OwnSite(len(task_spec.classes)), {TEST: task_spec.normalize(data.test[0])}
    spec = make_worker_spec(config, task_spec, own, NoState(folder), views)
    method, clean = spec.method, data.benchmark
    again = f"`flwr run` and flower.resume=true flower.out={str(folder.resolve())!r}"
    with threads(config.train.threads):
        worker = clean and BenchmarkWorker(spec, task_spec.normalize(clean[0]), clean[1])
        server = make_server(config, membership.counted, method, networks, worker)
        remote = FlowerTransport(handshake, membership, run_spec.to_note(), config.min_replies)
        transport = differential_privacy.protect(flower, server, remote)
        if flower.privacy == "none":  # norms of single updates are not private
            transport = UpdateNorms(transport, flower.refuse_norm)
        for mod in mods:
            transport = mod(transport)
        recorder = make_recorder(config, membership, spec, data.test[1], networks, folder)
        recorder.late = remote.late
        words, states = common_words(networks[0], len(task_spec.classes)), remote.states
        run_federation(config, method, server, transport, states, recorder, folder, again, words)
    facts = report_facts(membership, config.rounds, recorder.commonest)
    write_results(config, task_spec, method, server, folder, facts)
    for remark in summary.load(folder)["remarks"]:
        log.warning("%s", remark)
    log.info("Report: %s", (folder / html.NAME).resolve())
