"""The claims of stated.toml, and what the runs of one scale say to each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from string import Template
from typing import Any

from flr.core.errors import ConfigError
from flr.paper.claims import across_runs, within_runs
from flr.paper.claims.comparisons import AllResults, compared
from flr.paper.claims.judgement import Claim, Place
from flr.paper.claims.rule import Judged, JudgedPlace, by_papers_measure, judge
from flr.paper.experiment import claims_of, load
from flr.study.experiment_results import ExperimentResults

OURS = "(ours)"  # in the title of a claim that is not the paper's
FUNCTIONS = {"within": within_runs, "across": across_runs}


@dataclass(frozen=True, eq=False)
class StatedClaim:
    """A claim of stated.toml; no two are the same."""

    says: str
    tests: Sequence[tuple[str, str]]
    short: str = ""  # for the picture
    main: bool = False  # among the sentences at the top
    some: bool = False  # one place where it holds is enough
    note: str = ""  # what has to be known at every scale
    notes: Mapping[str, str] = field(default_factory=dict)  # what is known of one scale

    @property
    def ours(self) -> bool:
        return OURS in self.says


@dataclass(frozen=True)
class ScaledClaim:
    """A claim at one scale, with all places that the scale has."""

    claim: StatedClaim
    scale: str
    places: tuple[Place, ...]

    @cached_property
    def judged(self) -> Judged:
        return judge(self.places)

    @cached_property
    def papers(self) -> Judged | None:
        return by_papers_measure(self.places)


def stated() -> list[StatedClaim]:
    """All claims, in the order of the page."""
    file = resources.files("flr.paper.claims").joinpath("stated.toml")
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [_filled(StatedClaim(**claim), document["shared"]) for claim in document["claims"]]


def _filled(claim: StatedClaim, shared: Mapping[str, str]) -> StatedClaim:
    """With the notes that several claims share."""
    notes = {scale: Template(text).substitute(shared) for scale, text in claim.notes.items()}
    return replace(claim, note=Template(claim.note).substitute(shared), notes=notes)


def at_scales(claims: Iterable[StatedClaim], found: Mapping[str, AllResults]) -> list[ScaledClaim]:
    """Every claim at each scale that has a table for it."""
    scaled = []
    for claim in claims:
        for scale, results in found.items():
            places = [place for test in claim.tests for place in tested(results, *test)]
            some = (replace(p, some=p.some or claim.some) for p in places)
            if places:
                scaled.append(ScaledClaim(claim, scale, tuple(some)))
    return scaled


def tested(found: AllResults, where: str, what: str) -> list[Place]:
    """The places of one test of a claim; none where the scale has no such table."""
    if where in FUNCTIONS:
        return list(getattr(FUNCTIONS[where], what)(found))
    claims = [claim for claim in whole(where) if claim.says.strip().startswith(what)]
    if not claims:
        raise ConfigError(
            f"Expected a claim in {where}.toml that begins with {what!r}, as stated.toml says; "
            "there is none. Change one of the two."
        )
    results = found.get(where)
    return [place for claim in claims for place in run_at(results, claim)] if results else []


@cache
def whole(name: str) -> Sequence[Claim]:
    """All claims of an experiment's file: at a smaller scale some of its rows are left out."""
    return claims_of(load(name, "paper"))


def run_at(results: ExperimentResults, claim: Claim) -> list[Place]:
    """The places of a claim's comparison that a scale has."""
    of_scale = (each for each in claims_of(results.experiment) if each.says == claim.says)
    return [place for each in of_scale for place in compared(results, each)]


def as_json(scaled: Sequence[ScaledClaim]) -> list[dict[str, Any]]:
    """For other programs; numbers in percentage points."""
    return [
        {
            "claim": each.claim.says,
            "scale": each.scale,
            "ours": each.claim.ours,
            **_told(each.judged),
            "seeds": seeds(each.places),
            "places": [_place(place) for place in each.judged.places if each.judged.run],
            "papers_measure": each.papers and _told(each.papers),
        }
        for each in scaled
    ]


def _told(judged: Judged) -> dict[str, Any]:
    """A verdict, its reason, and how large the effect is."""
    mean, half = judged.effect.mean, judged.effect.half
    low, high = (None if mean is None or half is None else mean + sign * half for sign in (-1, 1))
    numbers = {"mean": mean, "low": low, "high": high}
    points = {name: in_points(value) for name, value in numbers.items()}
    return {"verdict": judged.verdict, "why": judged.why, "effect": points}


def _place(judged: JudgedPlace) -> dict[str, Any]:
    place = judged.place
    return {
        "where": place.where,
        "part": place.part,
        "difference": in_points(judged.mean),
        "low": in_points(judged.low),
        "high": in_points(judged.high),
        "margin": in_points(place.margin),
        "seeds": sorted(place.differences),
        "verdict": judged.verdict,
    }


def in_points(value: float | None) -> float | None:
    """Percentage points with two decimals."""
    return None if value is None else round(100 * value, 2)


def seeds(places: Sequence[Place]) -> list[int]:
    """Those that all places have."""
    return sorted(frozenset.intersection(*(frozenset(p.differences) for p in places)))
