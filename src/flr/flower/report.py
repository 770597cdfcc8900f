"""The server's record of a run on Flower: a line for every round, and the report at its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from flr.client.worker import WorkerSpec
from flr.config import Config
from flr.core.observers import ClientOutcome, RoundEnd
from flr.core.plain_text import counted
from flr.engine.local import LocalTransport
from flr.flower import differential_privacy
from flr.flower.live_page import LivePage
from flr.flower.membership import Membership
from flr.flower.prometheus import Prometheus
from flr.flower.watching import Watcher
from flr.report.recorder import TEST, Recorder
from flr.report.summary import NoiseRates
from flr.simulation.build import views_of
from flr.simulation.run import ReportFacts, recorder_options

log = logging.getLogger("flr")


@dataclass(kw_only=True)
class FlowerRecorder(Recorder):
    """Also says how many answers of a site have come too late, and tells whoever watches."""

    late: Mapping[int, int] = field(default_factory=dict)
    watchers: Sequence[Watcher] = ()

    def client_line(self, number: int, o: ClientOutcome) -> dict[str, Any]:
        """What became of one site in a round; "late" counts from the start of the run."""
        late = self.late.get(o.client, 0)
        return {**super().client_line(number, o), **({"late": late} if late else {})}

    def write(
        self, event: RoundEnd, clients: Sequence[dict[str, Any]], measured: dict[str, Any]
    ) -> None:
        """A round is shown once it is written down."""
        super().write(event, clients, measured)
        line = {"round": event.round, "seconds": event.seconds, **measured}
        for watcher in self.watchers:
            watcher.round_end(event.round, line, clients)

    def close(self) -> None:
        """Lets the watchers say that nothing more comes."""
        super().close()
        for watcher in self.watchers:
            watcher.close()


def make_recorder(
    config: Config,
    membership: Membership,
    spec: WorkerSpec,
    test_y: Tensor,
    networks: nn.ModuleList,
    folder: Path,
) -> FlowerRecorder:
    """Writes rounds down, and a line for each into the log."""

    def show(line: dict[str, Any]) -> None:
        accuracy = line.get("accuracy")
        reached = "" if accuracy is None else f", accuracy {100 * accuracy:.1f} %"
        sites = counted(len(line["participants"]), "site")
        head = f"Round {line['round']} of {config.rounds}: {sites}"
        log.info("%s%s, %.1f s", head, reached, line["seconds"])

    own = LocalTransport(spec, workers=1, drop=0.0)  # the server's own model
    port, sites = membership.flower.metrics, membership.sites
    title = f"{config.label}, seed {config.seed}: {folder.name}"
    watchers: list[Watcher] = [LivePage(folder, title, config.rounds, sites)]
    watchers += [Prometheus(port, config.rounds)] if port else []
    return FlowerRecorder(
        watchers=watchers,
        **recorder_options(config, folder),
        predict=own.predict,
        logits=own.logits,
        test_y=test_y,
        classes=membership.task_spec.classes,
        on_round=show,
        views=views_of(config, networks, spec.views[TEST]),
        sites=membership.sites,
    )


def report_facts(membership: Membership, rounds: int, commonest: float | None) -> ReportFacts:
    """A real federation does not know which labels are wrong."""
    unknown = (None,) * len(membership.sites)
    leaves = [
        "when asked who it is: its name, the number of its samples, their shape and type",
        "with each reply: its name, and the seconds it took",
        differential_privacy.declaration(membership.flower, rounds),
    ]
    return ReportFacts(
        scenario=membership.experiment,
        noise=NoiseRates(None, None, unknown, unknown),
        data="the sites' own data",
        also_leaves=[line for line in leaves if line],
        repeat_with="flwr run .",
        commonest=commonest,
        sites=dict(zip(membership.sites, membership.examples, strict=True)),
    )
