"""The public way to run many experiments: from a study to its runs, tables and page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flr.core.errors import ConfigError
from flr.report.frames import to_frame
from flr.simulation.api import Run

if TYPE_CHECKING:
    import pandas as pd

    from flr.study.experiment import Experiment
    from flr.study.experiment_results import ExperimentResults
    from flr.study.queue import Failures
    from flr.study.runner import Runner, Watch

OUT = Path("sweeps")


@dataclass(frozen=True)
class Sweep:
    """A study with all of its runs that are finished.

    Args:
        results: The runs by row, setting and seed.
        folder: Where its page and tables lie.
        failed: Why runs have failed, by their name; empty when all went well.

    Example:
        >>> study = {"grid": {"method": ["fedavg", "flr"]}, "seeds": [1], "config": {"rounds": 1}}
        >>> found = flr.sweep(study, jobs=1)
        >>> found.frame().groupby("row")["accuracy.last10"].mean().index.tolist()
        ['FLR', 'FedAvg']
    """

    results: ExperimentResults
    folder: Path
    failed: Failures

    @property
    def page(self) -> Path:
        """The page over all of it, one file."""
        return self.folder / "index.html"

    @property
    def runs(self) -> list[Run]:
        """The run folders that were kept."""
        kept = (self.results.runner.kept(cell.hash) for cell in self.results.cells.values())
        return [Run(Path(folder)) for folder in kept if folder]

    def frame(self) -> pd.DataFrame:
        """One row for each finished run: what was varied, and every number of its summary.

        Example:
            >>> flr.sweep("study.toml").frame()[["row", "setting", "seed", "accuracy.last10"]]
        """
        from flr.study import tables

        return to_frame(tables.runs(self.results))

    def latex(self) -> str:
        r"""The table of scores for \usepackage{booktabs}, the best of each column in bold.

        Example:
            >>> Path("table.tex").write_text(flr.sweep("study.toml").latex())
        """
        from flr.report import table
        from flr.study import tables

        return table.to_latex(tables.scores(self.results))


def sweep(
    study: str | Path | Mapping[str, Any],
    *,
    out: str | Path = OUT,
    jobs: int | None = None,
    train: bool = True,
) -> Sweep:
    """Trains what a study lacks and gathers all of it; stopped, it goes on when called again.

    Args:
        study: A TOML file, or a mapping like one: a base config and what is varied over it.
        out: The folder of runs, tables and pages; equal runs of several studies are shared in it.
        jobs: How many runs at a time; as many as there are processors if left out. With 1 they
            are trained in this process.
        train: Whether to train; else what there is, is shown.

    Returns:
        The runs. One that has failed is named in `failed` and stops no other.

    Raises:
        FlrError: The study, one of its configs, or the data cannot be used.

    Example:
        >>> study = {"grid": {"method": ["fedavg", "flr"]}, "seeds": [1], "config": {"rounds": 1}}
        >>> found = flr.sweep(study, jobs=1)
        >>> found.frame()[["row", "seed"]].values.tolist()
        [['FedAvg', 1], ['FLR', 1]]
    """
    from flr.study import page, queue, study_file

    experiment = study_file.load(study)
    runner = make_runner(experiment, Path(out), jobs)
    failed: Failures = {}
    if train:
        failed = queue.train_in_lanes(runner, [(experiment, experiment.seeds)], (), lanes(jobs))
    results = runner.gather(experiment)
    given = study if isinstance(study, str | Path) else "..."
    page.write(results, failed, f'flr.sweep("{given}")' if given != "..." else "flr.sweep(...)")
    return Sweep(results, Path(out) / experiment.folder, failed)


def make_runner(
    experiment: Experiment,
    out: Path,
    jobs: int | None,
    *,
    watch: Watch | None = None,
    share: tuple[int, int] | None = None,
) -> Runner:
    """What trains a study's runs: each gets an even share of the processors."""
    from flr.study.runner import Runner, unseen

    workers = max(1, processors() // lanes(jobs))
    keep = bool(experiment.document["keep"])
    return Runner(out, {}, workers, watch or unseen, keep=keep, share=share)


def lanes(jobs: int | None) -> int:
    """How many runs at a time."""
    if jobs is not None and jobs < 1:
        raise ConfigError(f"Expected at least one job, got {jobs}. Leave it out for one a core.")
    return jobs or processors()


def processors() -> int:
    """Those that this process may use, of a cluster's node perhaps a few."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
