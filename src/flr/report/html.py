"""Reports that open anywhere: one file each, without scripts and without requests to anyone."""

from __future__ import annotations

import base64
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from flr.core.arrays import write_atomically
from flr.report import jsonl, summary
from flr.report.formatting import percent, points, share, size
from flr.report.recorder import METRICS

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
    found, metrics = summary.load(folder), jsonl.read(folder / METRICS)
    name, config = folder.resolve().name, folder / "config.toml"
    repeat = shlex.join(["flr", "run", f"{name}/config.toml", "--out", f"{name}-again"])
    return render(
        folder / NAME,
        "run.html",
        title=f"{found['method']}, seed {found['seed']}",
        summary=found,
        verdict=verdict(found),
        picture=picture(folder / CURVES),
        config=config.read_text(encoding="utf-8") if config.exists() else "",
        leaves=leaves,
        again=again or repeat,
        sites=sites or {},
        names=list(sites or ()),
        dropped=Counter(client for line in metrics for client in line["dropped"]).most_common(),
        refused=[(line["round"], entry) for line in metrics for entry in line["refused"]],
        shown=_SHOWN,
        events=_EVENTS,
    )


def run_card(folder: Path) -> str:
    """A run in a notebook: part of a page, with the look of whatever is around it."""
    found = summary.load(folder)
    return (
        environment("flr.report")
        .get_template("card.html")
        .render(
            summary=found,
            verdict=verdict(found),
            picture=picture(folder / CURVES),
            report=folder / NAME,
        )
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
    reached = _reached(summary)
    server, client = (
        summary["memorization"][side]["noisy_memorized"] for side in ("server", "client")
    )
    memorized = "of the labels that are wrong, "
    if summary["noise"]["realised"] is None:
        memorized = (
            "which labels of the sites are wrong is not known, so memorizing was not measured"
        )
    elif summary["noise"]["realised"] == 0:
        memorized = "no label of the sites was made wrong, so memorizing was not measured"
    elif server is None and client is None:
        memorized = "what was memorized of wrong labels was not measured"
    elif client is None:
        last = "the clients of the last round held none"
        memorized += f"the server had memorized {share(server)} ({last})"
    else:
        both = "" if server is None else f" and the server {share(server)}"
        memorized += f"clients had memorized {share(client)}{both}"
    return f"{reached}; {memorized}."


def _reached(summary: dict[str, Any]) -> str:
    """How good the model is that a run ends with, and how that was chosen."""
    rounds, accuracy = summary["rounds"], summary["accuracy"]["last"]
    chosen = summary.get("selection")
    planned = (chosen and chosen["planned"]) or rounds
    of = f" of {planned}" if planned > rounds else ""
    start = f"After {rounds}{of} round{'' if planned == 1 else 's'} "
    if chosen is not None and chosen["kept"] == "validation":
        start += f"the model of round {chosen['round']}, chosen by labels that no site trains on, "
        if chosen["accuracy"] is None:
            return start + "is kept; its accuracy was not measured"
        others = f"last round {percent(accuracy)}, best {percent(summary['accuracy']['best'])}"
        return start + f"is right on {percent(chosen['accuracy'])} of the test set ({others})"
    if accuracy is None:
        return start + "there is a model, but its accuracy was not measured"
    return start + f"the model is right on {percent(accuracy)} of the test set"


def render(path: Path, template: str, *, package: str = "flr.report", **values: Any) -> Path:
    """Writes a page from a template of a package, which may extend those of this one."""
    write_atomically(path, environment(package).get_template(template).render(**values))
    return path


@cache
def environment(package: str) -> Environment:
    """Templates of a package and, below them, those of the reports."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("flr.report")]),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"percent": percent, "points": points, "share": share, "size": size}
    return found


def picture(path: Path) -> str:
    """A `data:` address, or nothing when there is no such picture."""
    if not path.exists():
        return ""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
