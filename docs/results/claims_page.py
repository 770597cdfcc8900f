"""Writes claims.md: every claim of the paper, what our runs say to it, and how sure that is.

    python docs/results/claims_page.py        # from the cells that are there; trains nothing

The claims that compare two rows are those of the experiments' files (src/flr/experiments), written
down before the runs; those within one run, or across settings, are in claims_within.py.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import get_args

from flr.arrays import write_atomically
from flr.reproduce import page as pages
from flr.reproduce.claims import Judged, Verdict
from flr.reproduce.experiment import load, names
from flr.reproduce.orderings import Pair, orderings
from flr.reproduce.runner import Outcome, Workshop, gather

HERE = Path(__file__).parent
PAGE, FOLDER = HERE / "claims.md", HERE / "reproduction"
HOLDS, FAILS, OPEN, LATER = "holds", "does not hold", "not decidable at this scale", "not run yet"

# What the paper says, and the claims of the experiments' files that test it: experiment, beginning
# of `says`. "within" are functions of claims_within.py.
STATED: dict[str, Sequence[tuple[str, str]]] = {
    "The server memorizes more slowly than clients": [("within", "server_is_slower")],
    "FedAvg's clients end at about 100 % memorized": [("within", "clients_memorize_all")],
    "FLR keeps the memorized share below 10 %": [("within", "stays_below_ten")],
    "FLR's curve bends shortly after the warm-up": [("within", "bends_after_warmup")],
    "FLR memorizes less than FedAvg, at clients and at the server": [
        ("table-memorization", "FLR reduces"),
        ("table-memorization", "With the CE warm-up, too, FLR reduces"),
        ("fig-memorization-flr", "The server memorizes"),
        ("fig-memorization-flr", "Noisy clients memorize"),
    ],
    "FLR is more accurate than FedAvg after the last round": [
        ("table-memorization", "FLR is more accurate"),
        ("table-memorization", "With the CE warm-up, too, FLR is more accurate"),
    ],
    "FLR sees the true class of more wrongly labelled samples": [
        ("fig-memorization-flr", "FLR's server sees"),
        ("fig-memorization-flr", "FLR's clients see"),
    ],
    "FLR's clients are slightly less accurate on clean labels": [
        ("fig-memorization-flr", "Clients are slightly less"),
    ],
    "FLR's features put more wrongly labelled samples with their true class": [
        ("fig-tsne", "FLR's features"),
    ],
    "i.i.d.: the local average alone mends the server's memorization, not the clients'": [
        ("table-memorization", "In the i.i.d. setting"),
    ],
    "non-i.i.d.: the global average alone is the more useful one": [
        ("table-memorization", "In the non-i.i.d. setting"),
    ],
    "The mixture is more accurate than either average alone": [
        ("table-memorization", "The mixture is"),
    ],
    "The mixture memorizes less than either average alone": [
        ("table-memorization", "The mixture memorizes"),
    ],
    "FLR > SLR > ELR late in training": [
        ("fig-curves", "FLR ends above SLR"),
        ("fig-curves", "SLR ends above ELR"),
    ],
    "ELR and Mixup decline late, FLR and SLR hold": [
        ("fig-curves", "FLR ends above ELR"),
        ("fig-curves", "FLR ends above Mixup"),
        ("fig-curves", "SLR ends above Mixup"),
        ("fig-curves", "ELR memorizes more"),
        ("fig-curves", "Mixup memorizes more"),
    ],
    "FLR's gain comes with more rounds (ours)": [("fig-longer", "After three times")],
    "Higher alpha is better": [("fig-ablation", "Higher α")],
    "Some gamma above 0 is enough": [("fig-ablation", "A γ above 0")],
    "gamma applied too early harms": [("table-choices", "γ from round 0")],
    "beta above 0 prevents the late fall": [("fig-ablation", "A β above 0")],
    "alpha >= 0.5 makes the term negative at the true class early in training": [
        ("within", "term_at_true_class"),
    ],
    "A linear alpha is better than a constant one": [("table-choices", "A linear α")],
    "One prediction of the global model in a round is enough (ours)": [
        ("table-choices", "One prediction"),
    ],
    "FLR is the best method of one stage: CIFAR-10N": [("fig-cifar10n", "FLR is")],
    "FLR is the best method of one stage: CIFAR-100": [("table-cifar100", "FLR is")],
    "FLR is the best method of one stage: non-i.i.d. CIFAR-10": [("fig-dirichlet", "FLR is")],
    "FLR is the best method of one stage: the stand-in for Clothing1M": [
        ("table-clothing1m", "FLR is"),
    ],
    "FLR in one stage is better than FedCorr": [("table-cifar100", "FLR, in one stage")],
    "FLR adds to FedCorr (FLR+)": [
        ("fig-cifar10n", "FLR+ is more accurate than FedCorr"),
        ("table-cifar100", "FLR+ is more accurate than FedCorr"),
        ("table-clothing1m", "FLR+ is more accurate than FedCorr"),
    ],
    "FedCorr adds to FLR (FLR+)": [
        ("fig-cifar10n", "FLR+ is more accurate than FLR"),
        ("table-cifar100", "FLR+ is more accurate than FLR"),
        ("table-clothing1m", "FLR+ is more accurate than FLR"),
    ],
    "FLR+ is better than DivideMix in the federation": [
        ("table-cifar100", "FLR+ is more accurate than DivideMix"),
    ],
    "FLR+ is best but without noise": [("within", "plus_is_best")],
    "FLR adds to FedProx": [("fig-server-aware", "FLR adds to FedProx")],
    "FLR adds to FedDyn": [("fig-server-aware", "FLR adds to FedDyn")],
    "FedProx alone does not help with noise": [("table-cifar100", "FedProx alone")],
    "DivideMix does not carry over from one place to a federation": [
        ("table-cifar100", "DivideMix loses"),
    ],
    "GCE is strong under high symmetric noise": [("table-cifar100", "GCE is strong")],
    "FLR's lead grows as alpha_Dir falls": [("within", "lead_grows")],
    "Label smoothing hurts": [("table-regularizers", "Label smoothing")],
    "Negative label smoothing helps under symmetric noise, ruins asymmetric": [
        ("table-regularizers", "Negative label smoothing"),
    ],
    "EM, ER and temperature scaling help": [
        ("table-regularizers", "Entropy penalisation"),
        ("table-regularizers", "Temperature"),
    ],
    "ER and EM are alike": [("table-regularizers", "ER and EM")],
}


def main() -> None:
    """Writes the page."""
    write_atomically(PAGE, text(outcomes()))


def outcomes() -> dict[str, Outcome]:
    """All experiments with what is there of them."""
    found = {name: load(name) for name in names()}
    workshop = Workshop(FOLDER)
    return {
        name: gather(experiment, workshop, experiment.seeds)
        for name, experiment in found.items()
        if experiment.rows and experiment.settings
    }


def text(found: Mapping[str, Outcome]) -> str:
    """The whole page."""
    within, notes = sibling("claims_within"), sibling("claims_notes").NOTES
    overview, sections = [], []
    for claim, tests in STATED.items():
        lines: list[tuple[str, str, str]] = []
        for where, what in tests:
            if where == "within":
                lines += getattr(within, what)(found)
            else:
                lines += compared(found[where], what)
        verdict = overall([line[2] for line in lines])
        note = notes.get(claim, "")
        overview.append(f"| [{claim}](#{anchor(claim)}) | {verdict} | {counts(lines)} |")
        sections.append(section(claim, verdict, lines, note))
    return TEXT.format(
        overview="\n".join(overview),
        number=len(STATED),
        tally=tally(overview),
        orderings=ordered(found),
        sections="\n\n".join(sections),
    )


def compared(outcome: Outcome, beginning: str) -> list[tuple[str, str, str]]:
    """The claims of an experiment's file that begin so: where, difference, verdict."""
    lines: list[tuple[str, str, str]] = []
    for judged in pages.verdicts(outcome):
        if judged.claim.says.strip().startswith(beginning):
            where = f"{outcome.experiment.name}, {place(outcome, judged)}"
            lines.append((where, pages.words(outcome, judged), judged.verdict))
    if not lines:
        raise SystemExit(f"Expected a claim of {outcome.experiment.name} that begins {beginning!r}")
    return lines


def place(outcome: Outcome, judged: Judged) -> str:
    """The setting of a comparison, short enough for a table."""
    return outcome.experiment.settings[judged.setting].title


def overall(verdicts: Sequence[str]) -> str:
    """One word for all places: see the page for the rule."""
    seen = Counter(verdict for verdict in verdicts if verdict != "not run")
    if not seen:
        return LATER
    if seen["contradicted"]:
        return FAILS
    return HOLDS if seen["holds"] and not seen["leans against"] + seen["open"] else OPEN


def counts(lines: Sequence[tuple[str, str, str]]) -> str:
    """How many places say what."""
    seen = Counter(line[2] for line in lines)
    return ", ".join(f"{verdict}: {count}" for verdict, count in seen.most_common())


def tally(overview: Sequence[str]) -> str:
    """How many claims got which verdict."""
    kinds = {HOLDS: "hold", FAILS: "do not hold", OPEN: f"are {OPEN}", LATER: f"were {LATER}"}
    seen = {kind: sum(f"| {kind} |" in line for line in overview) for kind in kinds}
    return ", ".join(f"{seen[kind]} {words}" for kind, words in kinds.items() if seen[kind])


def section(claim: str, verdict: str, lines: Sequence[tuple[str, str, str]], note: str) -> str:
    """A claim with its numbers."""
    rows = [f"| {where} | {numbers} | {said} |" for where, numbers, said in lines]
    table = "\n".join(["| where | numbers | says |", "| :-- | :-- | :-- |", *rows])
    parts = [f"### {claim}", f"**{verdict}.** {note}".strip(), table]
    return "\n\n".join(parts)


def ordered(found: Mapping[str, Outcome]) -> str:
    """For each column of the paper's tables: how many of its orderings are found here."""
    rows = []
    for name, outcome in found.items():
        pairs = orderings(outcome)
        for key, setting in outcome.experiment.settings.items():
            column = [p for p in pairs if p.setting == key and p.n]
            if column:
                rows.append(f"| {name}, {setting.title} | {shares(column)} |")
    return "\n".join(rows) if rows else "| none yet | | | | | |"


def shares(column: Sequence[Pair]) -> str:
    """Seeds, pairs, and how many are decided or lean either way."""
    seen = Counter(pair.verdict for pair in column)
    seeds = " or ".join(map(str, sorted({pair.n for pair in column})))
    counted = [str(seen[k]) for k in get_args(Verdict) if k not in ("open", "not run")]
    return " | ".join([seeds, str(len(column)), *counted])


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def sibling(name: str) -> ModuleType:
    """Another file of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"Expected {HERE / name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TEXT = """# Which of the paper's claims hold here

At laptop scale: 5,000 images, 20 clients of which 5 are asked, 50 rounds, a small CNN; see
[all tables and figures](README.md) for the numbers, [the settings](settings.md) for what every
method was allowed to try. Nothing here says what holds at the paper's scale.

Differences are paired by seed, in percentage points, with 95 % t-intervals over seeds; they are
not corrected for their number. In one place a claim *holds* or is *contradicted* when its interval
lies on one side of 0; otherwise it *leans*, and one seed can only lean. A claim as a whole
**holds** if some place decides for it and none leans against it, **does not hold** if some place
contradicts it, and is **not decidable at this scale** otherwise. Of {number} claims {tally}.

| the paper says | here | places |
| :-- | :-- | :-- |
{overview}

## Every ordering in the paper's tables

For each pair of methods in a column: has the better one in the paper the higher accuracy here, too?
All pairs with their differences are in `orderings.csv` beside each table.

| table, column | seeds | pairs | as in the paper | leans so | leans against | contradicted |
| :-- | --: | --: | --: | --: | --: | --: |
{orderings}

## The numbers

{sections}

```sh
python docs/results/claims_page.py        # from the cells that are there
```
"""


if __name__ == "__main__":
    main()
