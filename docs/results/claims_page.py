"""Writes claims.md: every claim of the paper, what our runs say to it, and how sure that is.

    python docs/results/claims_page.py        # from the cells that are there; trains nothing

The claims that compare two rows are those of the experiments' files (src/flr/experiments); those
within one run are in claims_within.py, those across settings in claims_across.py; claims_stated.py
and claims_compared.py put them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import claims_across
import claims_within
from claims_compared import OF_METHODS
from claims_stated import OF_FLR
from claims_within import Line

from flr.arrays import write_atomically
from flr.reproduce import page as pages
from flr.reproduce.claims import Judged, Verdict
from flr.reproduce.experiment import load, names
from flr.reproduce.orderings import Pair, orderings
from flr.reproduce.runner import Outcome, Workshop, gather

HERE = Path(__file__).parent
PAGE, FOLDER = HERE / "claims.md", HERE / "reproduction"
STATED = (*OF_FLR, *OF_METHODS)
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable at this scale"
FEW, LATER = "not decided: one seed", "not run yet"
OURS = "(ours)"  # in the title of a claim that is not the paper's


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
    overview, sections = [], []
    for claim in STATED:
        lines = [line for test in claim.tests for line in tested(found, *test)]
        verdict = overall(lines, claim.some)
        overview.append(f"| [{claim.says}](#{anchor(claim.says)}) | {verdict} | {counts(lines)} |")
        sections.append(section(claim.says, verdict, lines, claim.note))
    return TEXT.format(
        overview="\n".join(overview),
        tally=tally(line for line in overview if OURS not in line),
        ours=tally(line for line in overview if OURS in line),
        orderings=ordered(found),
        sections="\n\n".join(sections),
    )


def tested(found: Mapping[str, Outcome], where: str, what: str) -> list[Line]:
    """What one test of a claim gives."""
    functions = {"within": claims_within, "across": claims_across}
    if where in functions:
        lines: list[Line] = getattr(functions[where], what)(found)
        return lines
    return compared(found[where], what)


def compared(outcome: Outcome, beginning: str) -> list[Line]:
    """The claims of an experiment's file that begin so."""
    lines: list[Line] = []
    for judged in pages.verdicts(outcome):
        if judged.claim.says.strip().startswith(beginning):
            where = f"{outcome.experiment.name}, {place(outcome, judged)}"
            numbers, seeds = pages.words(outcome, judged), judged.difference.n
            lines.append(Line(where, judged.claim.says, numbers, judged.verdict, seeds))
    if not lines:
        raise SystemExit(f"Expected a claim of {outcome.experiment.name} that begins {beginning!r}")
    return lines


def place(outcome: Outcome, judged: Judged) -> str:
    """The setting of a comparison, short enough for a table."""
    return outcome.experiment.settings[judged.setting].title


def overall(lines: Sequence[Line], some: bool = False) -> str:
    """One word for all places: see the page for the rule."""
    seen = Counter(line.verdict for line in lines if line.seeds)
    if not seen:
        return LATER
    if some and seen["holds"]:
        return HOLDS
    if seen["contradicted"] and not (some and len(seen) > 1):
        return FAILS
    parts: dict[str, set[str]] = {}
    for line in lines:
        parts.setdefault(line.part, set()).add(line.verdict)
    if all("holds" in said <= {"holds", "leans that way"} for said in parts.values()):
        return HOLDS
    return FEW if max(line.seeds for line in lines) == 1 else OPEN


def counts(lines: Sequence[Line]) -> str:
    """How many places say what."""
    seen = Counter(line.verdict for line in lines)
    return ", ".join(f"{verdict}: {count}" for verdict, count in seen.most_common())


def tally(overview: Iterable[str]) -> str:
    """How many claims got which verdict."""
    lines = list(overview)
    kinds = {HOLDS: "hold", FAILS: "do not hold", OPEN: f"are {OPEN}"}
    kinds |= {FEW: "have one seed", LATER: f"were {LATER}"}
    seen = {kind: sum(f"| {kind} |" in line for line in lines) for kind in kinds}
    counted = ", ".join(f"{seen[kind]} {words}" for kind, words in kinds.items() if seen[kind])
    return f"{len(lines)} claims: {counted}"


def section(claim: str, verdict: str, lines: Sequence[Line], note: str) -> str:
    """A claim with its numbers."""
    rows = [f"| {line.where} | {line.numbers} | {line.verdict} |" for line in lines]
    table = "\n".join(["| where | numbers | says |", "| :-- | :-- | :-- |", *rows])
    parts = [f"### {claim}", f"**{verdict}.** {note}".strip(), table]
    return "\n\n".join(parts)


def ordered(found: Mapping[str, Outcome]) -> str:
    """For each column of the paper's tables: how many of its orderings are found here."""
    rows = []
    for name, outcome in found.items():
        columns: dict[tuple[str, str], list[Pair]] = {}
        for pair in orderings(outcome):
            if pair.n:
                columns.setdefault((pair.setting, pair.value.rpartition(".")[0]), []).append(pair)
        for (key, of), column in columns.items():
            title, what = outcome.experiment.settings[key].title, of.replace(".", ", ")
            rows.append(f"| {name}, {title} | {what} | {shares(column)} |")
    return "\n".join(rows) if rows else "| none yet | | | | | | | | |"


def shares(column: Sequence[Pair]) -> str:
    """Seeds, pairs, and how many are decided or lean either way."""
    seen = Counter(pair.verdict for pair in column)
    seeds = " or ".join(map(str, sorted({pair.n for pair in column})))
    counted = [str(seen[kind]) for kind in get_args(Verdict) if kind != "not run"]
    return " | ".join([seeds, str(len(column)), *counted])


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


TEXT = """# Which of the paper's claims hold here

At laptop scale: 5,000 images, 20 clients of which 5 are asked, 50 rounds (fig-curves and
fig-longer: 150), a small CNN; see
[all tables and figures](README.md) for the numbers, [the settings](settings.md) for what every
method was allowed to try. Nothing here says what holds at the paper's scale.

Differences are paired by seed, in percentage points, with 95 % t-intervals over seeds; they are
not corrected for their number. In one place a claim *holds* or is *contradicted* when its interval
lies on one side of 0; otherwise it *leans*, and one seed can only lean. A claim as a whole
**holds** if each of its parts (each comparison it names) holds in some place and leans against it
in none, and all were run; it **does not hold** if some place contradicts it (of "some gamma": if
all do), and is **not decidable at this scale** otherwise, or undecided because there is one seed.

Comparisons of two rows were written down before their runs but where they say otherwise. Measures
within a run or across settings, which are ours, were written after the first runs had been seen:
of memorization, smoothness, the sign of the gradient, late falls and what noise costs.

Cells are of two machines, whose processors round differently; which one a cell is of was not
recorded. The same command gives slightly other numbers on the other one, and a pair may be of both:
FedAvg, i.i.d. (0.8, 0.0), seed 1, had a best accuracy of 44.6 % on the first and has 45.1 % on the
second. So a difference of half a point says little, even where its interval is narrow. Cells whose
method's file has changed since are starred in the tables.

Of the paper's {tally}. Of ours, {ours}.

| claim | here | places |
| :-- | :-- | :-- |
{overview}

## Every ordering in the paper's tables

For each pair of methods in a column: has the one with more in the paper more here, too? All pairs
with their differences are in `orderings.csv` beside each table.

| table, column | of | seeds | pairs | so here | leans so | equal | leans against | contradicted |
| :-- | :-- | --: | --: | --: | --: | --: | --: | --: |
{orderings}

## The numbers

{sections}

```sh
python docs/results/claims_page.py        # from the cells that are there
```
"""


if __name__ == "__main__":
    main()
