"""The server's side of a run on Flower: roll call, the federation loop, what is written down."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from flr import config as configs
from flr.arrays import write_atomically
from flr.assemble import check_model, make_blueprint, make_server, save_model, threads
from flr.client.desk import BenchmarkDesk
from flr.client.state import NoState
from flr.config import Config
from flr.contract import Site
from flr.data.dataset import Subject
from flr.engine.run import Federation
from flr.errors import ConfigError, DataError, RunError
from flr.flower import privacy, settings
from flr.flower.charter import Charter
from flr.flower.chronicle import make_diary, write_report
from flr.flower.members import Members
from flr.flower.roll import Roll, in_order
from flr.flower.settings import Flower
from flr.flower.subject import Holdings, agree, from_scenario, own_holdings
from flr.flower.transport import FlowerTransport, RemoteStates
from flr.folders import default_folder, locked, new_folder
from flr.report import diary

log = logging.getLogger("flr")


def serve(grid: Grid, run_config: Mapping[str, Any]) -> None:
    """One experiment from beginning to end, or on from where it was stopped."""
    flower, tree, overrides = settings.read(run_config)
    if flower.resume:
        go_on(grid, flower)
        return
    config, holdings = prepare(flower, tree, overrides)
    folder = free_folder(flower, config)
    log.info("Run folder: %s", folder.resolve())
    with locked(folder):
        charter = Charter.of(secrets.token_hex(8), config, flower.classes or None)
        roll = Roll(grid, charter.to_note(), holdings.screen, {} if flower.node_keys else None)
        subject = gather(roll, holdings, flower)
        sites = in_order(roll.nodes)
        if flower.own_data:
            config = settings.resolve(flower, tree, overrides, len(sites))
            check_networks(config, flower, subject)
        examples = tuple(roll.facts[site].examples for site in sites)
        members = Members(charter.experiment, tuple(sites), examples, subject, flower, roll.keys)
        members.save(folder)
        write_atomically(folder / "config.toml", config.to_toml())  # last: it can be resumed now
        roll.screen = members.screen
        federate(roll, config, members, holdings, folder)


def prepare(
    flower: Flower, tree: Mapping[str, Any], overrides: list[str]
) -> tuple[Config, Holdings]:
    """Everything that can be found wrong before a node is touched."""
    config = settings.resolve(flower, tree, overrides)
    refuse(config, flower)
    holdings = own_holdings(flower) if flower.own_data else from_scenario(config)
    subject, _ = agree(holdings, [])
    if subject is not None:
        check_networks(config, flower, subject)
    return config, holdings


def check_networks(config: Config, flower: Flower, subject: Subject) -> None:
    """Whether the model can be built for what is classified, and be private if it has to be."""
    check_model(config, subject.input_shape, len(subject.classes))
    privacy.check_model(config, flower, subject)


def free_folder(flower: Flower, config: Config) -> Path:
    """Where the run goes; says how to go on with a run that is there already."""
    folder = Path(flower.out) if flower.out else default_folder(config)
    if (folder / "config.toml").exists():
        raise DataError(
            f"Expected a new folder as flower.out; {folder} already holds a run. Go on with it by "
            "flower.resume=true, or choose another flower.out."
        )
    return new_folder(folder)


def go_on(grid: Grid, asked: Flower) -> None:
    """Continues a run with the config and the sites that it began with."""
    folder = Path(asked.out)
    if not asked.out or not (folder / "config.toml").is_file():
        raise DataError(
            f"Expected the folder of a run that has begun as flower.out; {asked.out!r} is none. "
            "Give the folder that the log of the stopped run names."
        )
    members, config = Members.load(folder), configs.load(folder / "config.toml")
    members = replace(members, attempt=members.attempt + 1)
    log.info("Going on with %s; it keeps the settings it began with.", folder.resolve())
    flower = members.flower.model_copy(update={"wait": asked.wait, "timeout": asked.timeout})
    members = replace(members, flower=flower)
    holdings = own_holdings(flower) if flower.own_data else from_scenario(config)
    charter = Charter.of(members.experiment, config, flower.classes or None)
    roll = Roll(grid, charter.to_note(), members.screen, members.keys)
    with locked(folder):
        members.save(folder)
        there = roll.wait_for(lambda sites: len(sites) == len(members.sites), flower.wait)
        if missing := in_order(set(members.sites) - there):
            log.warning("Not there: %s. %s", ", ".join(missing), roll.complaints())
        federate(roll, config, members, holdings, folder)


def refuse(config: Config, flower: Flower) -> None:
    """Finds, before a node is touched, what cannot run on Flower; all of it at once."""
    problems = list(privacy.conflicts(config, flower))
    if config.drop:
        problems.append("drop is for simulated clients; on Flower nodes vanish by themselves.")
    if config.attack.name != "none":
        problems.append("[attack] is for simulated clients; use `flr run` to study attacks.")
    sites = config.partition.build().sites if config.scenario.path is None else flower.min_sites
    if not flower.own_data and flower.min_sites > sites:
        problems.append(f"flower.min-sites = {flower.min_sites}; the scenario has {sites} sites.")
    if flower.own_data and flower.min_sites < 1:
        problems.append("flower.min-sites should say how many sites to wait for, at least 1.")
    if flower.own_data and config.build_method().supervised and not flower.benchmark:
        problems.append(
            f'method "{config.label}" needs clean samples at the server: set flower.benchmark.'
        )
    if problems:
        raise ConfigError("\n".join(["This cannot run on Flower. Correct these:", *problems]))


def gather(roll: Roll, holdings: Holdings, flower: Flower) -> Subject:
    """Waits for sites that fit together, and for what nodes that are there have to say.

    Whoever has answered when enough have takes part: not only the quickest.
    """
    least = flower.min_sites or len(holdings.expected)
    log.info("Waiting for %s sites.", least)

    def fitting(sites: set[str]) -> set[str]:
        facts = [roll.facts[site] for site in in_order(sites)]
        return sites - agree(holdings, facts)[1].keys()

    there = roll.wait_for(
        lambda sites: len(fitting(sites)) >= least and not roll.outstanding(), flower.wait
    )
    fit = fitting(there)
    subject, misfits = agree(holdings, [roll.facts[site] for site in in_order(there)])
    for site in roll.nodes.keys() - fit:
        roll.refuse(roll.nodes[site], f'site "{site}"', misfits.get(site, "it has gone"))
        roll.forget(site)
    if subject is None or len(fit) < least:
        raise RunError(
            f"Expected {least} sites within {flower.wait:g} s; {len(fit)} can take part "
            f"({', '.join(in_order(fit)) or 'none'}). {roll.complaints()}\n"
            f"{holdings.advice}; then run again."
        )
    log.info("Sites: %s", ", ".join(in_order(fit)))
    return subject


def federate(
    roll: Roll, config: Config, members: Members, holdings: Holdings, folder: Path
) -> None:
    """The same loop as in process, with a checkpoint after every round."""
    subject = members.subject
    plan = make_blueprint(config, subject, NoSites(len(subject.classes)), NoState(folder))
    with threads(config.train.threads):
        networks = plan.networks()
        clean = holdings.benchmark
        desk = clean and BenchmarkDesk(plan, subject.normalise(clean[0]), clean[1])
        server = make_server(config, members.examples, plan.method, networks, desk)
        transport = make_transport(roll, config, members)
        probe = make_diary(config, members, holdings, networks, folder)
        federation = Federation(
            method=plan.method,
            server=server,
            transport=privacy.protect(members.flower, server, transport),
            state=transport.states,
            folder=folder / "checkpoint",
            min_replies=config.min_replies,
            checkpoint_every=1,
            probe=probe,
            again=f"`flwr run` and flower.resume=true flower.out={str(folder.resolve())!r}",
        )
        try:
            diary.truncate(folder, federation.resume(diary.recorded(folder)))
            federation.run()
        finally:
            probe.close()
    save_model(config, subject, plan.method.result(server), folder)
    write_report(config, members, plan.method, folder)


def make_transport(roll: Roll, config: Config, members: Members) -> FlowerTransport:
    """Asks the members; where they have data of their own, tells them what is classified."""
    flower = members.flower
    charter = Charter.of(members.experiment, config, flower.classes or None)
    if flower.own_data:
        charter = replace(charter, subject=members.subject)
    return FlowerTransport(
        roll=roll,
        sites=members.sites,
        examples=members.examples,
        attempt=members.attempt,
        charter=charter.to_note(),
        states=RemoteStates(),
        least=config.min_replies,
        wait=flower.wait,
        timeout=flower.timeout,
    )


@dataclass(frozen=True)
class NoSites:
    """The server's own desk has no site's data."""

    classes: int

    def __getitem__(self, client: int) -> Site:
        raise RunError(f"Expected client {client} to be asked at its site. Report this as a bug.")
