"""The table and the picture of the project's README: from fig-longer, the audit and the bench."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from flr.core.arrays import write_atomically
from flr.paper.claims.judgement import minus
from flr.report import html, style
from flr.report.formatting import percent
from flr.report.paired_runs import estimate
from flr.report.style import Curve
from flr.study.experiment_results import ExperimentResults

EXPERIMENT, SETTING = "fig-longer", "iid"
BEGIN, END = "<!-- headline -->\n", "<!-- /headline -->\n"
AUDITS = "audit-on-features.jsonl"  # of one site alone, beside cleanlab on the same features
ROWS = {"fedavg": "FedAvg", "elr": "ELR", "flr-2": "FLR, lam = 2"}
SPAN = 10  # rounds: a round's value depends on which five sites it asks
PANELS = {
    "Wrong labels that clients repeat (%)": ("memorization", "client_noisy", "noisy_memorized"),
    "Right answers on new images (%)": ("accuracy",),
}


def write(longer: ExperimentResults) -> list[Path]:
    """The picture, and the table between its markers, where there is all that they are made of."""
    folder = longer.runner.folder
    readme = folder.resolve().parent / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    results = common(longer)
    files = (folder / AUDITS, folder / "bench" / "main.json")
    there = all(path.exists() for path in files) and BEGIN in text
    if not (there and results.seeds):
        return []
    write_atomically(folder / "headline.png", style.png(figure(results)))
    start, rest = text.split(BEGIN)
    write_atomically(readme, f"{start}{BEGIN}{table(results)}{END}{rest.split(END)[1]}")
    return [folder / "headline.png", readme]


def common(longer: ExperimentResults) -> ExperimentResults:
    """The seeds that all rows of the picture have."""
    seeds = [s for s in longer.seeds if all(s in longer.at(row, SETTING) for row in ROWS)]
    return longer.runner.gather(longer.experiment, seeds)


def table(results: ExperimentResults) -> str:
    """What a user gets, beside what there is without."""
    folder = results.runner.folder
    lines = map(json.loads, (folder / AUDITS).read_text(encoding="utf-8").splitlines())
    audits = [line["ways"] for line in lines if line["row"] == "worst"]
    bench = json.loads((folder / "bench" / "main.json").read_bytes())
    ratios = {row["engine"]: row["ratio"]["median"] for row in bench["rows"]}
    template = html.environment("flr.paper").get_template("headline.md")
    page = template.render(
        right=compared(results, "accuracy", "last10"),
        wrong=compared(results, "memorization", "last10", "client_noisy", "noisy_memorized"),
        noise=percent(fmean(results.values("flr-2", SETTING, "noise", "realised"))),
        seeds=len(results.seeds),
        audits=len(audits),
        audit=found_by(audits, "audit"),
        cleanlab=max(found_by(audits, way) for way in audits[0] if way.startswith("cleanlab")),
        ours=ratios["flr, 2 workers"],
        ray=ratios["Flower+Ray, 2 actors"],
    )
    return f"{page}\n"


def compared(results: ExperimentResults, *path: str) -> dict[str, str]:
    """Means of the three methods, and FLR's lead over ELR."""
    found = {row: results.by_seed(row, SETTING, *path) for row in ROWS}
    lead = estimate(minus(found["flr-2"], found["elr"]).values())
    half = "" if lead.half is None else f" ± {100 * lead.half:.1f}"
    means = {row.removesuffix("-2"): percent(fmean(found[row].values())) for row in ROWS}
    return {**means, "lead": f"{100 * (lead.mean or 0):+.1f}{half}"}


def found_by(audits: Sequence[Mapping[str, Mapping[str, float]]], way: str) -> float:
    """Average precision of one way to rank labels, mean over seeds."""
    return fmean(ways[way]["average_precision"] for ways in audits)


def figure(results: ExperimentResults) -> Figure:
    """Two panels: what clients memorize, and what the federation learns."""
    looks = style.line_styles(ROWS.values())
    drawn = style.sheet(style.WIDTH, 2.9)
    for axes, (title, keys) in zip(drawn.subplots(1, 2), PANELS.items(), strict=True):
        style.panel_title(axes, title, style.WIDTH / 2)
        for row, name in ROWS.items():
            curves = [smooth(curve, keys) for curve in results.curves(row, SETTING)]
            style.seeds(axes, curves, ("value",), name, looks[name])
        style.plain(axes)
        style.whole_rounds(axes)
        axes.set_xlabel("round", fontsize=9.5)
    style.legend_above(drawn, [style.handle(*item) for item in looks.items()])
    return drawn


def smooth(curve: Curve, keys: tuple[str, ...]) -> list[dict[str, float]]:
    """The mean over the rounds since SPAN rounds ago, where something was measured."""
    points = {}
    for entry in curve:
        value: Any = entry
        for key in keys:
            value = value.get(key, {}) if isinstance(value, dict) else None
        if isinstance(value, float):
            points[entry["round"]] = value
    return [
        {"round": n, "value": fmean(v for r, v in points.items() if n - SPAN < r <= n)}
        for n in points
    ]
