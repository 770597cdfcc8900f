"""One federation from its first round to its report, whether clients are simulated or on Flower."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flr.config import Config
from flr.core.arrays import Arrays
from flr.core.contract import Method, Server
from flr.core.errors import FlrError, RunError
from flr.data.dataset import TaskSpec
from flr.engine.federation import Federation, States, Transport
from flr.engine.selection import Selection
from flr.models import model_file
from flr.models.embedding import Embedder
from flr.report import html, jsonl, model_card, summary
from flr.report import recorder as records
from flr.report.describe import COUNTED, leaves_the_site
from flr.report.recorder import Recorder
from flr.report.summary import NoiseRates
from flr.report.trackers import common as trackers
from flr.simulation import run_record

OnRound = Callable[[dict[str, Any]], None]


def recorder_options(config: Config, folder: Path) -> dict[str, Any]:
    """What a recorder takes from the config."""
    return {
        "folder": folder,
        "rounds": config.rounds,
        "every": config.eval.every,
        "metrics": config.eval.metrics,
        "trackers": trackers.start(
            {entry.name: entry.build() for entry in config.trackers},
            trackers.TrackedRun(folder, run_record.settings_of(config)),
        ),
    }


def selection_of(config: Config) -> Selection | None:
    """How the model is chosen; None where no labels are held out."""
    if not config.eval.validation:
        return None
    return Selection(config.eval.select == "validation", config.eval.patience)


def run_federation(
    config: Config,
    method: Method,
    server: Server,
    transport: Transport,
    states: States,
    recorder: Recorder,
    folder: Path,
    go_on_with: str,
    words: Mapping[str, int],
) -> None:
    """Trains from the newest checkpoint in the run folder, or from the start, to the last round.

    `go_on_with` is the command that an error names for going on after a stop; `words` are what the
    words in declared shapes mean here.
    """
    federation = Federation(
        method=method,
        server=server,
        transport=transport,
        state=states,
        folder=folder / "checkpoint",
        min_replies=config.min_replies,
        checkpoint_every=config.checkpoint_every,
        observer=recorder,
        again=go_on_with,
        belongs=run_record.CONFIG,
        records=(records.METRICS, records.CLIENTS),
        words=words,
        selection=selection_of(config),
    )
    try:
        records.truncate(folder, federation.resume(records.recorded(folder)))
        federation.run()
    except (ConnectionError, TimeoutError):
        raise  # it is the network that failed, not the folder
    except FlrError:
        federation.require_folder()  # where it is gone, that is the cause
        raise
    except OSError as error:
        federation.require_folder()
        raise RunError(
            f"Expected to write to {folder}; the system says: {error}. Make room or mend the "
            f"folder, then go on with {go_on_with}."
        ) from error
    finally:
        recorder.close()


def require_rounds(folder: Path, rounds: int) -> None:
    """A report is about every round; some may have been removed since they were written."""
    if (found := records.recorded(folder)) != rounds:
        raise RunError(
            f"Expected {rounds} rounds in {folder / records.METRICS}; it has {found} without a "
            f"gap: it was changed while the run was going on. Bring it back, or run again."
        )


@dataclass(frozen=True)
class ReportFacts:
    """What a report says that stands neither in the config nor in the record of the rounds."""

    scenario: str  # its hash, or the name of the experiment
    noise: NoiseRates
    data: str  # what the data set is called
    attack: dict[str, Any] | None = None
    also_leaves: Sequence[str] = ()  # what leaves a site besides what the method sends
    repeat_with: str | None = None  # the command that repeats the run, where config.toml will not
    sites: Mapping[str, int] | None = None  # names and sizes of real sites, in order
    commonest: float | None = None  # the share of the test set that has its commonest class


def _without_paths(model: dict[str, Any]) -> dict[str, Any]:
    """A model file goes to others: where this machine has a backbone's weights stays here."""
    backbone = model.get("backbone")
    if not isinstance(backbone, dict):
        return model
    return {**model, "backbone": {k: v for k, v in backbone.items() if k != "weights"}}


def largest(model: Arrays, buffers: Collection[str]) -> float:
    """The largest number among the trained weights, whatever its sign."""
    trained = [v for name, v in model.items() if name not in buffers and v.numel()]
    return max((float(value.abs().max()) for value in trained), default=0.0)


def write_results(
    config: Config,
    task_spec: TaskSpec,
    method: Method,
    server: Server,
    folder: Path,
    about: ReportFacts,
) -> None:
    """Writes the trained model with its card, and the report: summary, picture and page."""
    from flr.report import plots  # matplotlib takes a second, and only a finished run needs it

    train = config.train
    meta = {
        "model": _without_paths(train.model.table("name")),
        **({"trainable": train.trainable} if train.model.is_backbone else {}),
        "method": [entry.table("name") for entry in config.method],
        "classes": list(task_spec.classes),
        "input_shape": list(task_spec.test_shape),  # later samples are prepared like test samples
        "mean": list(task_spec.normalize.mean),
        "std": list(task_spec.normalize.std),
    }
    if config.data.backbone is not None:
        meta["backbone"] = Embedder(config.data.backbone).identity()
    selection, model = selection_of(config), method.result(server)
    if selection is not None:
        model = selection.model(server, model)
    model_file.save(folder / model_file.NAME, model, meta)
    require_rounds(folder, server.round)
    metrics = jsonl.read(folder / records.METRICS)
    found = summary.summarize(
        metrics,
        method=config.label,
        seed=config.seed,
        rounds=server.round,
        scenario=about.scenario,
        noise=about.noise,
        attack=about.attack,
        planned=config.rounds,
        selects=config.eval.select == "validation",
        commonest=about.commonest,
        largest=largest(model, server.buffers),
    )
    summary.save(folder, found)
    plots.curves(metrics, folder / html.CURVES, config.label)
    counted = COUNTED if config.eval.validation else []
    leaves = [*leaves_the_site(method), *counted, *about.also_leaves]
    html.run_page(folder, leaves, about.repeat_with, about.sites)
    model_card.write(folder, config, found, meta, leaves, about.data)
    run_record.finish(folder, config)
