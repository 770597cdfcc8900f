"""Writes README.md of this folder: every table and figure of the paper, with our numbers.

python docs/results/results_page.py       # from what `flr reproduce` has written; trains nothing
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from flr.arrays import write_atomically
from flr.reproduce import page as pages
from flr.reproduce.experiment import load, names
from flr.reproduce.runner import Outcome, Workshop, gather

HERE = Path(__file__).parent
PAGE, FOLDER = HERE / "README.md", HERE / "reproduction"
ORDER = (  # as in the paper
    "fig-overview",
    "fig-memorization-fedavg",
    "fig-memorization-flr",
    "table-memorization",
    "fig-tsne",
    "fig-ablation",
    "table-cifar100",
    "fig-cifar10n",
    "table-clothing1m",
    "fig-server-aware",
    "fig-dirichlet",
    "table-related",
    "fig-partitions-cifar10",
    "fig-partitions-cifar100",
    "fig-transition-cifar10",
    "fig-transition-cifar100",
    "table-regularizers",
    "fig-curves",
    "table-choices",
    "fig-longer",
)


def main() -> None:
    """Writes the page."""
    write_atomically(PAGE, text())


def text() -> str:
    """The whole page."""
    if set(ORDER) != set(names()):
        raise SystemExit(f"Expected all of {names()} in ORDER")
    workshop = Workshop(FOLDER)
    found = [gather(each, workshop, each.seeds) for each in map(load, ORDER)]
    lines = [overview(outcome) for outcome in found]
    return TEXT.format(lines="\n".join(lines), sections="\n\n".join(map(section, found)))


def overview(outcome: Outcome) -> str:
    """A line of the list on top."""
    experiment = outcome.experiment
    return f"| [{experiment.name}](#{experiment.name}) | {experiment.title} | {runs(outcome)} |"


def runs(outcome: Outcome) -> str:
    """How much of it is there."""
    total = len(outcome.configs)
    if not total:
        return "nothing is trained"
    return "all" if len(outcome.cells) == total else f"{len(outcome.cells)} of {total}"


def section(outcome: Outcome) -> str:
    """A table or figure: how it was made, what it shows, what it says."""
    experiment, folder = outcome.experiment, f"reproduction/{pages.name_of(outcome)}"
    table, picture = (FOLDER.parent / folder / name for name in ("table.md", "figure.png"))
    parts = [f"### {experiment.name}", made(outcome) or f"{experiment.title}."]
    command = f"flr reproduce {experiment.name} --out docs/results/reproduction"
    parts.append(f"```sh\n{command}\n```")
    if outcome.cells or not outcome.configs:
        parts += [table.read_text().strip()] if table.exists() else []
        parts += [f"![{experiment.title}]({folder}/figure.png)"] if picture.exists() else []
    if outcome.cells and experiment.claims:
        parts.append(said(outcome))
    return "\n\n".join(parts)


def made(outcome: Outcome) -> str:
    """Runs, seeds, time."""
    if not outcome.cells:
        return "Not run yet." if outcome.configs else ""
    minutes = sum(cell.summary["seconds"] for cell in outcome.cells.values()) / 60
    seeds = Counter(place.seed for place in outcome.cells)
    listed = ", ".join(f"{seed} ({count})" for seed, count in sorted(seeds.items()))
    return f"{len(outcome.cells)} runs by seed: {listed}; together {minutes:.0f} minutes."


def said(outcome: Outcome) -> str:
    """What its claims came to."""
    seen = Counter(judged.verdict for judged in pages.verdicts(outcome))
    counted = ", ".join(f"{verdict}: {count}" for verdict, count in seen.most_common())
    return f"[Claims](claims.md): {counted}."


TEXT = """# Results

**[Which of the paper's claims hold here](claims.md)**: each with its numbers and a verdict, also
those that fail.

What else was measured, each page with the command that gives it again:

- [Memorization on CIFAR-10](table-memorization.md): the paper's table read line by line.
- [Settings of the methods](settings.md): what was tried at laptop scale, on held-out images.
- [Every method on digits](methods-on-digits.md): symmetric and asymmetric noise, three seeds.
- [The label audit against cleanlab](audit.md): which finds more wrong labels, three seeds.
- [Kills on Flower](flower-kills.md): SuperNodes and the SuperLink killed; the same bits.
- [Aggregators under attack](aggregators-under-attack.md): eight rules, three attacks, three seeds.
- [Speed and scale](speed.md): beside a bare loop and other engines ([tables](bench/table.md)).

## Every table and figure of the paper

Our numbers at laptop scale: 5,000 images of CIFAR-10 or of 20 classes of CIFAR-100, 20 clients of
which 5 are asked, 50 rounds of 5 epochs (fig-curves and fig-longer: 150), a small CNN (34,000
parameters); presets `laptop-cifar10` and `laptop-cifar100`. FLR has lam = 1, which was best on
[held-out images](settings.md), but the paper's 2 in the memorization tables and figures, fig-tsne,
fig-ablation, table-choices and fig-curves (fig-cifar10n and fig-longer have both). The paper
trained ResNets on all images for 300 to 800 rounds, so compare directions, not numbers; what its
figures show was not at hand as numbers.

All runs on two cores, CPU, torch 2.13.0; each is a file in
[reproduction/cells](reproduction/cells). They are of two machines, whose processors round
differently: the same command gives the same bits on one machine, and slightly other numbers on
another. How, and what is inferred:
[reproduce the paper](../how-to/reproduce-the-paper.md). Best accuracy is the best on the test set
of every second round and the last ten, which is how the paper has it but for rounds left out;
`runs.csv` beside each table has the last round and the mean of the last ten, too. Numbers without ±
are of one seed. Minutes are those of a run in one process, mostly beside another one, with what the
machine was stopped for in between.

| table or figure | | runs |
| :-- | :-- | :-- |
{lines}

{sections}

```sh
python docs/results/results_page.py       # this page again
```
"""


if __name__ == "__main__":
    main()
