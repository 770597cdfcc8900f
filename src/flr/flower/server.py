"""The server's side of a run on Flower: roll call, the federation loop, what is written down."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from flwr.serverapp import Grid

from flr import config as configs
from flr import trackers
from flr.arrays import canonical_json, write_atomically
from flr.assemble import check_model, make_blueprint, make_server, save_model, threads, views_of
from flr.client.desk import BenchmarkDesk
from flr.client.state import NoState
from flr.config import Config
from flr.data.dataset import Subject, site_table
from flr.engine.run import Federation
from flr.errors import ConfigError, DataError, RunError
from flr.flower import privacy, settings
from flr.flower.charter import Charter, subject_from_note, subject_to_note
from flr.flower.roll import Facts, Roll, in_order
from flr.flower.settings import Flower
from flr.flower.subject import Holdings, agree, from_scenario, own_holdings
from flr.flower.transport import FlowerTransport, RemoteStates
from flr.folders import default_folder, locked, new_folder
from flr.report import diary, html, lines, summary
from flr.report.describe import leaves_the_site
from flr.report.diary import Diary
from flr.report.rates import NoiseRates

log = logging.getLogger("flr")

RECORD = "federation.json"


@dataclass(frozen=True)
class Members:
    """Who takes part in an experiment: settled when it begins, the same after a resume."""

    experiment: str
    sites: tuple[str, ...]
    examples: tuple[int, ...]
    subject: Subject
    flower: Flower

    def save(self, folder: Path) -> None:
        """Writes what a resumed run needs to find the same sites again."""
        facts = {
            "experiment": self.experiment,
            "sites": list(self.sites),
            "examples": list(self.examples),
            "subject": subject_to_note(self.subject),
            "flower": self.flower.model_dump(),
        }
        write_atomically(folder / RECORD, canonical_json(facts))

    @classmethod
    def load(cls, folder: Path) -> Members:
        """The inverse of `save`."""
        try:
            facts = json.loads((folder / RECORD).read_text())
            return cls(
                facts["experiment"],
                tuple(facts["sites"]),
                tuple(facts["examples"]),
                subject_from_note(facts["subject"]),
                Flower.model_validate(facts["flower"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"Expected the folder of a run on Flower at {folder}; its {RECORD} cannot be read "
                f"({error}). Give the `flower.out` of the run that was stopped."
            ) from error


def serve(grid: Grid, run_config: Mapping[str, Any]) -> None:
    """One experiment from beginning to end, or on from where it was stopped."""
    flower, tree, overrides = settings.read(run_config)
    if flower.resume:
        go_on(grid, flower)
        return
    config = settings.resolve(flower, tree, overrides)
    refuse(config, flower)
    holdings = own_holdings(flower) if flower.own_data else from_scenario(config)
    folder = new_folder(Path(flower.out) if flower.out else default_folder(config))
    log.info("Run folder: %s", folder.resolve())
    with locked(folder):
        charter = Charter.of(secrets.token_hex(8), config, flower.classes or None)
        roll = Roll(grid, charter.to_note(), holdings.screen, bound=flower.node_keys)
        subject = gather(roll, holdings, flower)
        sites = in_order(roll.nodes)
        if flower.own_data:
            config = settings.resolve(flower, tree, overrides, len(sites))
            check_model(config, subject.input_shape, len(subject.classes))
        examples = tuple(roll.facts[site].examples for site in sites)
        members = Members(charter.experiment, tuple(sites), examples, subject, flower)
        members.save(folder)
        write_atomically(folder / "config.toml", config.to_toml())  # last: it can be resumed now
        federate(grid, config, members, holdings, folder)


def go_on(grid: Grid, asked: Flower) -> None:
    """Continues a run with the config and the sites that it began with."""
    folder = Path(asked.out)
    if not asked.out or not (folder / "config.toml").is_file():
        raise DataError(
            f"Expected the folder of a run that has begun as flower.out; {asked.out!r} is none. "
            "Give the folder that the log of the stopped run names."
        )
    members, config = Members.load(folder), configs.load(folder / "config.toml")
    log.info("Going on with %s; it keeps the settings it began with.", folder.resolve())
    flower = members.flower.model_copy(update={"wait": asked.wait, "timeout": asked.timeout})
    members = replace(members, flower=flower)
    holdings = own_holdings(flower) if flower.own_data else from_scenario(config)
    with locked(folder):
        federate(grid, config, members, holdings, folder)


def refuse(config: Config, flower: Flower) -> None:
    """Finds, before a node is touched, what cannot run on Flower; all of it at once."""
    problems = list(privacy.conflicts(config, flower))
    if config.drop:
        problems.append("drop is for simulated clients; on Flower nodes vanish by themselves.")
    if config.attack.name != "none":
        problems.append("[attack] is for simulated clients; use `flr run` to study attacks.")
    if flower.own_data and flower.min_sites < 1:
        problems.append("flower.min-sites should say how many sites to wait for, at least 1.")
    if flower.own_data and config.build_method().supervised and not flower.benchmark:
        problems.append(
            f'method "{config.label}" needs clean samples at the server: set flower.benchmark.'
        )
    if problems:
        raise ConfigError("\n".join(["This cannot run on Flower. Correct these:", *problems]))


def gather(roll: Roll, holdings: Holdings, flower: Flower) -> Subject:
    """Waits for the sites; what they hold decides what is classified, where nothing else does."""
    least = flower.min_sites or len(holdings.expected)
    log.info("Waiting for %s sites.", least)
    there = roll.wait_for(lambda sites: len(sites) >= least, flower.wait)
    facts = [roll.facts[site] for site in in_order(there)]
    subject, misfits = agree(holdings, facts) if facts else (None, {})
    for site, reason in misfits.items():
        roll.refuse(f'site "{site}"', reason)
        del roll.nodes[site]
    roll.nodes = {site: roll.nodes[site] for site in there - misfits.keys()}
    if subject is None or len(roll.nodes) < least:
        raise RunError(
            f"Expected {least} sites within {flower.wait:g} s; {len(roll.nodes)} can take part "
            f"({', '.join(in_order(roll.nodes)) or 'none'}). {roll.complaints()}\n"
            "Start or mend the missing nodes, or lower flower.min-sites; then run again."
        )
    log.info("Sites: %s", ", ".join(in_order(roll.nodes)))
    return subject


def federate(
    grid: Grid, config: Config, members: Members, holdings: Holdings, folder: Path
) -> None:
    """The same loop as in process, with a checkpoint after every round."""
    flower, subject = members.flower, members.subject
    classes = flower.classes or None
    charter = Charter.of(members.experiment, config, classes)
    if classes is not None:
        charter = replace(charter, subject=subject)
    states = RemoteStates()
    nothing = site_table(torch.empty(0), [torch.empty(0).long()], [torch.empty(0).long()], 0)
    nothing = replace(nothing, classes=len(subject.classes))
    blueprint = make_blueprint(config, subject, nothing, NoState(folder))
    with threads(config.train.threads):
        networks = blueprint.networks()
        clean = holdings.benchmark
        desk = (
            None
            if clean is None
            else BenchmarkDesk(blueprint, subject.normalise(clean[0]), clean[1])
        )
        server = make_server(config, members.examples, blueprint.method, networks, desk)
        transport = FlowerTransport(
            roll=Roll(grid, charter.to_note(), known_only(members), bound=flower.node_keys),
            sites=members.sites,
            charter=charter.to_note(),
            states=states,
            least=config.min_replies,
            wait=flower.wait,
            timeout=flower.timeout,
        )
        privacy.protect(flower, server, transport)
        probe = make_diary(config, members, holdings, networks, folder)
        federation = Federation(
            method=blueprint.method,
            server=server,
            transport=transport,
            state=states,
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
    save_model(config, subject, blueprint.method.result(server), folder)
    write_report(config, members, blueprint.method, folder)


def known_only(members: Members) -> Any:
    """Who may take part once a run has begun: its own sites, with the data they had."""
    known = dict(zip(members.sites, members.examples, strict=True))

    def screen(facts: Facts) -> str:
        if facts.site not in known:
            return "the run has begun without it; it can join the next one"
        if facts.examples != known[facts.site]:
            return f"it began with {known[facts.site]} samples and now has {facts.examples}"
        return ""

    return screen


def make_diary(
    config: Config, members: Members, holdings: Holdings, networks: Any, folder: Path
) -> Diary:
    """Writes rounds down; prints one line for each."""
    predicted, views = views_of(config, networks)
    x, y = holdings.test

    def show(line: dict[str, Any]) -> None:
        accuracy = line.get("accuracy")
        reached = "" if accuracy is None else f", accuracy {100 * accuracy:.1f} %"
        log.info(
            "Round %s of %s: %s sites%s, %.1f s", line["round"], config.rounds,
            len(line["participants"]), reached, line["seconds"],
        )  # fmt: skip

    return Diary(
        folder=folder,
        predict=predicted,
        test_x=members.subject.normalise(x),
        test_y=y,
        classes=members.subject.classes,
        rounds=config.rounds,
        every=config.eval.every,
        trackers=trackers.make(config.trackers, folder),
        on_round=show,
        views=views,
        sites=members.sites,
    )


def write_report(config: Config, members: Members, method: Any, folder: Path) -> None:
    """Summary, picture and page; a real federation does not know which labels are wrong."""
    from flr.report import plots  # matplotlib takes a second, and only a finished run needs it

    metrics = lines.read(folder / diary.METRICS)
    unknown = (None,) * len(members.sites)
    facts = summary.Facts(
        method=config.label,
        seed=config.seed,
        rounds=config.rounds,
        scenario=members.experiment,
        noise=NoiseRates(None, None, unknown, unknown),
        seconds=sum(line["seconds"] for line in metrics),
    )
    summary.save(folder, summary.summarise(metrics, facts))
    plots.curves(metrics, folder / html.CURVES, config.label)
    html.run_page(folder, leaves_the_site(method), "the Flower run of federation.json")
    log.info("Report: %s", (folder / html.NAME).resolve())
