"""What `flr sweep` costs beside bare training: `python -m benchmarks.studies.sweep_overhead`.

Bare: two processes that have imported everything and read the data, each with half of a study's
runs, one `flr.run` after the other. The sweep has the same runs in two jobs, from its first line to
its page. Both are timed in turns, as others may use the machine, by the wall clock and by the
processors' time of all processes; what counts is the ratio.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from flr.config import Config
from flr.simulation import api
from flr.simulation.build import load_data
from flr.study import study_file
from flr.study.experiment import Experiment

STUDY = Path(__file__).with_name("five_methods_on_digits.toml")
JOBS = 2


def main() -> None:
    """Prints both times and their ratio for every turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", type=Path, default=STUDY)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    experiment = study_file.load(asked.study)
    ratios = []
    for turn in range(asked.turns):
        ways: list[tuple[str, Callable[[Path], tuple[float, float]]]] = [
            ("bare", lambda folder: bare(experiment, folder)),
            ("sweep", lambda folder: swept(asked.study, folder)),
        ]
        walls, processors = {}, {}
        for name, way in ways if turn % 2 == 0 else reversed(ways):
            with tempfile.TemporaryDirectory() as folder:
                walls[name], processors[name] = way(Path(folder))
        ratios.append((walls["sweep"] / walls["bare"], processors["sweep"] / processors["bare"]))
        print(
            f"turn {turn + 1}: bare {walls['bare']:.1f} s, sweep {walls['sweep']:.1f} s, ratio "
            f"{ratios[-1][0]:.3f}; processors' time {processors['bare']:.1f} and "
            f"{processors['sweep']:.1f} s, ratio {ratios[-1][1]:.3f}",
            flush=True,
        )
    wall, processor = (median(each) for each in zip(*ratios, strict=True))
    print(f"median: {wall:.3f} by the wall clock, {processor:.3f} by processors' time")


def swept(study: Path, folder: Path) -> tuple[float, float]:
    """The whole command: seconds by the clock, and of processors."""
    command = [sys.executable, "-m", "flr.cli.main", "sweep", str(study)]
    started, before = time.perf_counter(), used_by_children()
    subprocess.run(  # noqa: S603 - our own command
        [*command, "--jobs", str(JOBS), "--out", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started, used_by_children() - before


def used_by_children() -> float:
    """Seconds of processors of all that have ended, of their own children too."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def bare(experiment: Experiment, folder: Path) -> tuple[float, float]:
    """Training alone; both clocks start when all processes are ready."""
    places = list(experiment.places(experiment.seeds))
    configs = [experiment.config(place, {"workers": 1}) for place in places]
    context = multiprocessing.get_context("spawn")
    ready, spent = context.Barrier(JOBS + 1), context.SimpleQueue()
    processes = [
        context.Process(target=_train, args=(configs[job::JOBS], folder / str(job), ready, spent))
        for job in range(JOBS)
    ]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    return time.perf_counter() - started, sum(spent.get() for _ in processes)


def _train(configs: list[Config], folder: Path, ready: Any, spent: Any) -> None:
    folder.mkdir()
    data = load_data(configs[0])
    ready.wait()
    started = time.process_time()
    for number, config in enumerate(configs):
        api.run(config, data=data, out=folder / str(number))
    spent.put(time.process_time() - started)


if __name__ == "__main__":
    main()
