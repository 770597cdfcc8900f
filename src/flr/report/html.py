"""Reports that open anywhere: one file each, without scripts and without requests to anyone."""

from __future__ import annotations

import base64
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from flr.arrays import write_atomically
from flr.report import lines, summary
from flr.report.diary import METRICS
from flr.report.words import percent, share, size

NAME = "report.html"
INDEX = "index.html"
CURVES = "curves.png"
COMPARISON = "comparison.png"

_SHOWN = 40  # rows of a table before the rest is folded away
_EVENTS = 100  # dropped or refused clients named one by one


def run_page(
    folder: Path,
    leaves: Sequence[str],
    again: str | None = None,
    sites: Mapping[str, int] | None = None,
) -> Path:
    """Writes `report.html` from what a finished run folder holds.

    `leaves` says in words what leaves a site. `again` is the command that repeats the run, where
    it is not simply its config. `sites` are the names and sizes of real ones, in order.
    """
    found = summary.load(folder)
    metrics = lines.read(folder / METRICS)
    return render(
        folder / NAME,
        "run.html",
        title=f"{found['method']}, seed {found['seed']}",
        summary=found,
        verdict=verdict(found),
        picture=picture(folder / CURVES),
        config=_text(folder / "config.toml"),
        leaves=leaves,
        again=again or _again(folder),
        sites=sites or {},
        names=list(sites or ()),
        dropped=Counter(client for line in metrics for client in line["dropped"]).most_common(),
        refused=[(line["round"], entry) for line in metrics for entry in line["refused"]],
        shown=_SHOWN,
        events=_EVENTS,
    )


def comparison_page(folder: Path, summaries: Mapping[str, dict[str, Any]]) -> Path:
    """Writes `index.html` over several runs in sub-folders, for someone new to all this.

    `summaries` has the sub-folders' names as keys. The picture is `comparison.png` beside.
    """
    return render(
        folder / INDEX,
        "comparison.html",
        title="Methods compared",
        runs=summaries,
        scenarios=sorted({found["scenario"] for found in summaries.values()}),
        noise=next(iter(summaries.values()))["noise"],
        picture=picture(folder / COMPARISON),
    )


def verdict(summary: dict[str, Any]) -> str:
    """A run in one or two plain sentences, also when there was no evaluation or no noise."""
    rounds = summary["rounds"]
    start = f"After {rounds} round{'' if rounds == 1 else 's'} "
    accuracy = summary["accuracy"]["last"]
    if accuracy is None:
        reached = start + "there is a model, but its accuracy was not measured"
    else:
        reached = start + f"the model is right on {percent(accuracy)} of the test set"
    return f"{reached}; {_memorized(summary)}."


def _memorized(summary: dict[str, Any]) -> str:
    if summary["noise"]["realised"] is None:
        return "which labels of the sites are wrong is not known, so memorizing was not measured"
    if summary["noise"]["realised"] == 0:
        return "no label of the sites was made wrong, so memorizing was not measured"
    server = summary["memorization"]["server"]["noisy_memorized"]
    client = summary["memorization"]["client"]["noisy_memorized"]
    if server is None and client is None:
        return "what was memorized of wrong labels was not measured"
    start = "of the labels that are wrong, "
    if client is None:
        last = "the clients of the last round held none"
        return f"{start}the server had memorized {share(server)} ({last})"
    if server is None:
        return f"{start}clients had memorized {share(client)}"
    return f"{start}clients had memorized {share(client)} and the server {share(server)}"


def render(path: Path, template: str, **values: Any) -> Path:
    write_atomically(path, _environment().get_template(template).render(**values))
    return path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("flr.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "share": share, "size": size}
    return environment


def picture(path: Path) -> str:
    """A `data:` address, or nothing when there is no such picture."""
    if not path.exists():
        return ""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _again(folder: Path) -> str:
    name = folder.resolve().name
    return shlex.join(["flr", "run", f"{name}/config.toml", "--out", f"{name}-again"])
