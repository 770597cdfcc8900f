"""A site on its own machine: its data, its state on disk, and its answers to the server.

What a site says of itself: its name, how many samples it has, their shape and type. When it cannot
take part it says why in words made of these and of its node config's class list and keys; what its
files hold, and where, stays in its own log.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from flr.client.state import StateFiles, VouchedStateFiles
from flr.client.worker import ClientResult, ClientTask
from flr.core import seal
from flr.core.arrays import Arrays, canonical_json, clear_half_written, write_atomically
from flr.core.contract import Site
from flr.core.errors import ConfigError, FlrError
from flr.data.dataset import SiteTable, TaskSpec, make_site
from flr.data.on_disk import Numbers
from flr.flower import site_cache, site_data
from flr.flower.handshake import is_count
from flr.flower.run_spec import RunSpec
from flr.flower.site_config import RefusalError, SiteConfig
from flr.simulation.build import threads

log = logging.getLogger("flr")

ATTEMPT = "attempt"  # beside the states of an experiment: which attempt of the run was the last

_EXPERIMENT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class SiteTask:
    """A task for this site, with what the server says about its state."""

    task: ClientTask
    keep: set[int]  # versions of the state that the server may go back to
    attempt: int  # of the run: a server that was killed may have left messages behind

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> SiteTask:
        """Refuses whatever is no number: some of these name files."""
        asked = dict(note["order"])
        keep, attempt = asked.pop("keep"), asked.pop("attempt")
        numbers = [asked[key] for key in ("client", "step", "round", "rounds")]
        numbers += [attempt, *keep, 0 if asked["version"] is None else asked["version"]]
        if not all(map(is_count, numbers)) or not isinstance(asked["task"], str):
            raise RefusalError("the server's task is not one that flr gives")
        return cls(ClientTask(**asked), set(keep), attempt)


def hello(own: SiteConfig, run_spec: RunSpec) -> dict[str, Any]:
    """What a site says of itself when the server asks who is there."""
    if run_spec.classes is None:
        table, _, number = scenario_site(own, run_spec)
        x, examples = table.x, table.size(number)
    else:
        x, y = own_data(own, run_spec, run_spec.classes)
        examples = len(y)
    return {
        "site": own.site,
        "examples": examples,
        "shape": list(x.shape[1:]),
        "dtype": site_cache.dtype_of(x),
    }


def execute(
    own: SiteConfig, run_spec: RunSpec, site_task: SiteTask, received: Arrays
) -> ClientResult:
    """Does one task; the state it starts from is the version that the server has accepted."""
    site, task_spec = own_site(own, run_spec)
    states, task = own_states(own, run_spec, site_task)
    worker = site_cache.worker(canonical_json(run_spec.tree), own.device, task_spec)
    no_site = site_cache.OwnSite(site.classes)
    worker.spec = replace(worker.spec, sites=replace(no_site, site=site), state=states)
    worker.broadcast = received
    try:
        with threads(worker.spec.train.threads):
            return worker.serve(task)
    except BaseException as error:
        site_cache.worker.cache_clear()  # a method that was cut short may have changed its networks
        if isinstance(error, RuntimeError) and "state_dict" in str(error):
            reason = (
                "the weights it got do not fit its model: another shape. Has it the same model "
                "code, class list and flr version as the server?"
            )
        elif isinstance(error, FlrError):
            reason = f'task "{task.task}" failed; the reason is in its log'
        else:
            raise
        log.error("%s", error)
        raise RefusalError(reason) from error
    finally:  # a worker that waits keeps neither samples nor weights in memory
        worker.spec, worker.broadcast = replace(worker.spec, sites=no_site), {}


def own_states(
    own: SiteConfig, run_spec: RunSpec, site_task: SiteTask
) -> tuple[StateFiles, ClientTask]:
    """The site's states of this experiment, and the task as it goes on from one of them.

    Refuses tasks that cannot, because a state is gone, or belongs to other data.
    """
    task = site_task.task
    if not _EXPERIMENT.fullmatch(run_spec.experiment):
        raise RefusalError("the experiment's name is not one that flr gives")
    # by experiment and site: node ids change, and one machine may serve several sites
    folder = own.state_dir / run_spec.experiment / own.site
    for name in (ATTEMPT, site_data.RECORD):  # an earlier task may have been killed
        clear_half_written(folder / name)
    newest = newest_attempt(folder)
    if site_task.attempt < newest:  # sent by a server that was killed, before the run was resumed
        raise RefusalError("the run was resumed since, and this is a task of before")
    if site_task.attempt > newest:
        write_atomically(folder / ATTEMPT, seal.signed({"attempt": site_task.attempt}), sync=True)
    version = site_data.version_for(own, run_spec, task.step, task.version, folder)
    task = replace(task, version=version)
    states = VouchedStateFiles(folder)
    if task.version is not None and not states.has(task.client, task.version):
        raise RefusalError(
            f"its state of step {task.version} is gone or damaged. Bring its state-dir back, or "
            "leave the site out and start a new run"
        )
    states.keep_only({task.client: site_task.keep})
    return states, task


def newest_attempt(folder: Path) -> int:
    """Which attempt of a run has last asked this site; 0 where that is not known.

    Of a damaged file the next task makes a whole one. A task of before that comes first can harm
    nobody unseen: the site says by itself when the versions that it is asked for are gone.
    """
    path = folder / ATTEMPT
    try:
        text = path.read_text()
        if text.isdecimal():
            log.warning("%s is of an older version of flr, without a digest; used unchecked", path)
            return int(text)
        return int(seal.unsigned(text)["attempt"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError) as error:
        log.warning("%s is damaged (%s); it is made anew by the next task", path, error)
        return 0


def own_site(own: SiteConfig, run_spec: RunSpec) -> tuple[Site, TaskSpec]:
    """The site with its inputs as a network sees them, and what they are about."""
    if run_spec.classes is None:
        table, drawn, number = scenario_site(own, run_spec)
        return replace(table[number], name=own.site), drawn
    task_spec = run_spec.task_spec
    if task_spec is None:
        raise RefusalError("the server has not said what is classified")
    x, y = own_data(own, run_spec, run_spec.classes, task_spec)
    shape = tuple(x.shape[1:])
    if shape != task_spec.input_shape:
        raise RefusalError(shapes_differ(shape, task_spec.input_shape))
    return make_site(own.site, x, slice(None), y, len(task_spec.classes)), task_spec


def shapes_differ(own: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """One sentence for both sides of the wire."""
    return (
        f"its inputs have shape {own}, the federation's model takes {expected}. Prepare them "
        "alike (for images: `size` in the node config)"
    )


def own_data(
    own: SiteConfig,
    run_spec: RunSpec,
    classes: tuple[str, ...],
    task_spec: TaskSpec | None = None,
) -> tuple[Numbers, Tensor]:
    """The site's samples, normalised for a task; labels are positions in the class list.

    Where a backbone makes features of them and no task is given, the first one stands for all.
    """
    if own.data is None:
        raise RefusalError(
            "the federation works on the sites' own data, and its node config names none. "
            'Add data="/path" to it'
        )
    if own.classes is not None and own.classes != classes:
        raise RefusalError(
            f"its class list is {', '.join(own.classes)}; the federation's is "
            f"{', '.join(classes)}. Order counts: use the federation's list, or leave it out"
        )
    try:
        stamp = site_cache.stamp_of(own.data)
        shared = canonical_json(run_spec.tree.get("data", {}))
        source = site_cache.Source(
            own.data,
            stamp,
            classes,
            own.label,
            own.size,
            shared,
            run_spec.fingerprint,
            own.loader,
        )
        x, y = site_cache.samples(source, task_spec)
    except ConfigError:
        raise  # about the backbone that the server names
    except Exception as error:  # readers of other packages raise what they like
        _log(own, error)
        found = f"its data cannot be used with the classes {', '.join(classes)}"
        if not os.path.exists(own.data):  # noqa: PTH110 - that of Path may raise, too
            found = "it has no data at the path that its node config gives"
        raise RefusalError(
            f"{found}; what exactly is wrong is in its log. Mend the data, or "
            "`data` in its node config"
        ) from error
    if y is None or len(y) == 0:
        raise RefusalError("it has no labelled samples. Point `data` of its node config to some")
    return x, y


def _log(own: SiteConfig, error: Exception) -> None:
    """Says in the site's own log what is wrong; where that is not said in words, where it was."""
    log.error("site %s: %s", own.site, error, exc_info=not isinstance(error, FlrError | OSError))


def scenario_site(own: SiteConfig, run_spec: RunSpec) -> tuple[SiteTable, TaskSpec, int]:
    """The site of the simulated split with the node's number; all nodes draw the same one."""
    if own.data is not None:  # then nothing is read here that a server names
        raise RefusalError(
            "the run deals out the samples of a data set, and its node config names data of its "
            "own. Set flower.classes for a run on those, or leave `data` out"
        )
    tables = [run_spec.tree.get(section) for section in ("data", "scenario", "noise")]
    paths = [table["path"] for table in tables if isinstance(table, dict) and table.get("path")]
    try:
        stamps = tuple(site_cache.stamp_of(Path(path)) for path in paths)
        tree = canonical_json(run_spec.tree)
        table, task_spec = site_cache.scenario(tree, stamps, run_spec.fingerprint)
    except ConfigError:
        raise
    except Exception as error:
        _log(own, error)
        raise RefusalError(
            "the data set that the run deals out cannot be read there; its log "
            "says why. Put the same files at the same path on every machine"
        ) from error
    if own.partition_id is not None and own.site != f"site-{own.partition_id}":
        raise RefusalError(
            f"in a simulated scenario a site is called by its number, site-{own.partition_id}; its "
            f"node config says {own.site}. Leave `site` out"
        )
    number = own.partition_id
    if number is None or not 0 <= number < len(table):
        raise RefusalError(
            f"the scenario has sites 0 to {len(table) - 1}; its partition-id is {number}. "
            "Start as many nodes as the scenario has sites"
        )
    return table, task_spec, number
