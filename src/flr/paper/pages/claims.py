"""claims.md: every claim of the paper, what our runs say to it, and how sure that is."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from string import Template
from typing import Any, get_args

from flr.core.errors import ConfigError
from flr.paper.claims import across_runs, within_runs
from flr.paper.claims.judgement import Judged, Line, Verdict
from flr.paper.claims.orderings import orderings
from flr.paper.claims.within_runs import AllResults
from flr.paper.pages import experiment as experiments
from flr.paper.runner import ExperimentResults
from flr.report import html

PAGE = "claims.md"
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable at this scale"
FEW, LATER = "not decided: one seed", "not run yet"
OURS = "(ours)"  # in the title of a claim that is not the paper's


@dataclass(frozen=True)
class StatedClaim:
    """A claim of stated.toml; with `some`, one place where it holds is enough."""

    says: str
    tests: Sequence[tuple[str, str]]
    note: str = ""
    some: bool = False


def stated() -> list[StatedClaim]:
    """All claims, in the order of the page."""
    file = resources.files("flr.paper.claims").joinpath("stated.toml")
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    claims = [StatedClaim(**claim) for claim in document["claims"]]
    return [replace(c, note=Template(c.note).substitute(document["notes"])) for c in claims]


def text(found: AllResults) -> str:
    """The whole page."""
    claims: list[dict[str, Any]] = []
    verdicts: dict[bool, list[str]] = {True: [], False: []}  # of ours, and of the paper's
    for claim in stated():
        lines = [line for test in claim.tests for line in tested(found, *test)]
        places = experiments.counted(line.verdict for line in lines)
        verdict = overall(lines, claim.some)
        verdicts[OURS in claim.says].append(verdict)
        told = {"verdict": verdict, "lines": lines, "places": places}
        claims.append({**asdict(claim), "anchor": anchor(claim.says), **told})
    page: dict[str, Any] = {"claims": claims, "orderings": list(ordered(found))}
    page |= {"tally": tally(verdicts[False]), "ours": tally(verdicts[True])}
    return html.environment("flr.paper").get_template(PAGE).render(page) + "\n"


def tested(found: AllResults, where: str, what: str) -> list[Line]:
    """What one test of a claim gives."""
    functions = {"within": within_runs, "across": across_runs}
    if where in functions:
        lines: list[Line] = getattr(functions[where], what)(found)
        return lines
    return compared(found[where], what)


def compared(results: ExperimentResults, beginning: str) -> list[Line]:
    """The claims of an experiment's file that begin so."""
    lines = []
    for judged in experiments.verdicts(results):
        if judged.claim.says.strip().startswith(beginning):
            where, numbers = results.where(judged.setting), experiments.words(results, judged)
            seeds = judged.difference.n
            lines.append(Line(where, judged.claim.says, numbers, judged.verdict, seeds))
    if not lines:
        name = results.experiment.name
        raise ConfigError(
            f"Expected a claim in {name}.toml that begins with {beginning!r}, as stated.toml says; "
            "there is none. Change one of the two."
        )
    return lines


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


def tally(verdicts: Sequence[str]) -> str:
    """How many claims got which verdict."""
    kinds = {HOLDS: "hold", FAILS: "do not hold", OPEN: f"are {OPEN}"}
    kinds |= {FEW: "have one seed", LATER: f"were {LATER}"}
    seen = Counter(verdicts)
    counted = ", ".join(f"{seen[kind]} {words}" for kind, words in kinds.items() if seen[kind])
    return f"{len(verdicts)} claims: {counted}"


def ordered(found: AllResults) -> Iterator[list[str]]:
    """For each column of the paper's tables: how many of its orderings are found here."""
    for _, results in sorted(found.items()):
        columns: dict[tuple[str, str], list[Judged]] = {}
        for pair, _ in orderings(results):
            if pair.difference.n:
                of = pair.claim.value.rpartition(".")[0]
                columns.setdefault((pair.setting, of), []).append(pair)
        for (setting, of), column in columns.items():
            seen = Counter(pair.verdict for pair in column)
            seeds = " or ".join(map(str, sorted({pair.difference.n for pair in column})))
            counted = [str(seen[kind]) for kind in get_args(Verdict) if kind != "not run"]
            what = of.replace(".", ", ")
            yield [results.where(setting), what, seeds, str(len(column)), *counted]


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
