"""`flr demo`: what this library is for, in less than a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flr import config as configs
from flr.cli import portable
from flr.cli.progress import RunProgress
from flr.cli.terminal import console, say

SETTING: dict[str, Any] = {
    "rounds": 60,
    "workers": 2,
    "data": {"name": "digits"},
    "partition": {"kind": "iid", "clients": 20},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.5},  # the paper's severe level
    "train": {"model": "mlp", "participation": 0.25, "epochs": 5, "batch": 10}
    | {"lr": 0.1, "momentum": 0.5},
}
# Each with the best of at most four lam: last ten rounds, seeds 21 to 24 (docs/tutorial.md).
METHODS: dict[str, Any] = {
    "fedavg": "fedavg",
    "elr": {"name": "elr", "lam": 3.0},
    "flr": {"name": "flr", "lam": 2.5},
}


def demo(
    seed: Annotated[
        int, typer.Option(min=0, help="Another split, other wrong labels, other weights.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs (default: a new one under runs/).")
    ] = None,
) -> None:
    """Compare FedAvg, ELR and FLR on digits of which two thirds are labelled wrong."""
    from flr.report import compare, html, plots
    from flr.simulation import api, folders

    portable.restart()
    folder = out or folders.first_free(Path("runs") / f"demo-{seed}")
    console.print("20 sites hold 1,437 handwritten digits. About two of three labels are wrong.")
    runs = {}
    for method, options in METHODS.items():
        config = configs.parse(SETTING | {"method": options, "seed": seed})
        with RunProgress(method, config.rounds, console) as progress:
            runs[method] = api.run(config, out=folder / method, on_round=progress)
    summaries = {name: run.summary for name, run in runs.items()}
    plots.comparison({name: run.metrics for name, run in runs.items()}, folder / "comparison.png")
    html.comparison_page(folder, summaries)
    console.print()
    console.print(compare.demo_table(summaries))
    console.print(
        "Memorized: the share of wrong labels that a model repeats. At clients: by their\n"
        "own models after local training, the mean over those of the last round."
    )
    say(f"Pictures: {folder / 'comparison.png'}")
    say(f"Page:     {folder / 'index.html'}")
    audit_one_site(runs["flr"].folder)


def audit_one_site(run: Path) -> None:
    """What each site can do with the run: find its own wrong labels."""
    from flr.audit.findings import scores_of
    from flr.audit.run_clients import open_run
    from flr.audit.site_audit import PAGE, clear, examine, likely_wrong

    with console.status("One site audits its labels"):
        site, folder = open_run(run).site_audit(0), run / "audit" / "0"
        scores = scores_of(site.evidence)
        clear(folder)
        sure = examine(site, folder, scores=scores).sure
    wrong, labels = likely_wrong(scores), len(site.evidence)
    least = "" if sure else "at least "
    console.print(
        f"\nThe first site audits its labels: {least}{wrong:,} of its {labels:,} look wrong."
    )
    if not sure:
        say("How many are wrong cannot be told from so few; the likeliest come first.")
    say(f"To review: {folder / PAGE}")
    say("Your own data: flr audit FOLDER LABELS.csv")
