"""What the server of a run on Flower writes down: rounds as they end, and the report."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from torch import nn

from flr import trackers
from flr.assemble import predict_here, views_of
from flr.config import Config
from flr.contract import Method
from flr.flower import privacy
from flr.flower.members import Members
from flr.flower.subject import Holdings
from flr.report import diary, html, lines, summary
from flr.report.describe import leaves_the_site
from flr.report.diary import Diary
from flr.report.rates import NoiseRates

log = logging.getLogger("flr")

ROLL_CALL = (
    "at the roll call: its name, the number of its samples, their shape and type",
    "with each reply: its name, and the seconds it took",
)


def make_diary(
    config: Config, members: Members, holdings: Holdings, networks: nn.ModuleList, folder: Path
) -> Diary:
    """Writes rounds down; prints one line for each."""
    x, y = holdings.test
    test = members.subject.normalise(x)

    def show(line: dict[str, Any]) -> None:
        accuracy = line.get("accuracy")
        reached = "" if accuracy is None else f", accuracy {100 * accuracy:.1f} %"
        log.info(
            "Round %s of %s: %s sites%s, %.1f s", line["round"], config.rounds,
            len(line["participants"]), reached, line["seconds"],
        )  # fmt: skip

    return Diary(
        folder=folder,
        predict=predict_here(config, networks, test),
        test_y=y,
        classes=members.subject.classes,
        rounds=config.rounds,
        every=config.eval.every,
        trackers=trackers.make(config.trackers, folder),
        on_round=show,
        views=views_of(config, networks, test),
        sites=members.sites,
    )


def write_report(config: Config, members: Members, method: Method, folder: Path) -> None:
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
    leaves = [
        *leaves_the_site(method),
        *ROLL_CALL,
        privacy.declaration(members.flower, config.rounds),
    ]
    sites = dict(zip(members.sites, members.examples, strict=True))
    html.run_page(folder, [line for line in leaves if line], "flwr run .", sites)
    log.info("Report: %s", (folder / html.NAME).resolve())
