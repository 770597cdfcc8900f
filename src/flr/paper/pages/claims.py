"""claims.md, claims.json and claims.png: every claim of the paper, and what our runs say to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flr.core.arrays import write_atomically
from flr.paper.claims import stated
from flr.paper.claims.comparisons import AllResults
from flr.paper.claims.orderings import agreement
from flr.paper.claims.rule import SIGNS, Judged, JudgedPlace
from flr.paper.claims.stated import ScaledClaim, StatedClaim
from flr.paper.figures import forest
from flr.report import html, style
from flr.report.paired_runs import Estimate

PAGE, DATA, PICTURE = "claims.md", "claims.json", "claims.png"
KINDS = ("holds", "does not hold", "undecided", "unready", "not run")
LATER = "Not looked into yet."

Found = Mapping[str, AllResults]  # by scale


def write(found: Found, folder: Path) -> list[Path]:
    """The page, the same for programs, and the picture."""
    scaled = stated.at_scales(stated.stated(), found)
    write_atomically(folder / PAGE, text(found, scaled))
    write_atomically(folder / DATA, data(scaled))
    write_atomically(folder / PICTURE, style.png(forest.draw(scaled)))
    return [folder / name for name in (PAGE, DATA, PICTURE)]


def data(scaled: Sequence[ScaledClaim]) -> str:
    """A claim at a scale in each line."""
    lines = (json.dumps(each, ensure_ascii=False) for each in stated.as_json(scaled))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def text(found: Found, scaled: Sequence[ScaledClaim]) -> str:
    """The whole page."""
    claims: dict[StatedClaim, dict[str, ScaledClaim]] = {}
    for each in scaled:
        claims.setdefault(each.claim, {})[each.scale] = each
    page: dict[str, Any] = {
        "claims": claims,
        "scales": list(found),
        "tally": {scale: tally([e for e in scaled if e.scale == scale]) for scale in found},
        "failed": [each for each in scaled if each.judged.verdict == "does not hold"],
        "turned": [e for e in scaled if e.papers and e.papers.verdict != e.judged.verdict],
        "orderings": list(ordered(found)),
        "said": said,
        "why": lambda each: each.claim.notes.get(each.scale, LATER),
        "in_points": in_points,
        "rows": rows,
        "anchor": anchor,
    }
    return html.environment("flr.paper").get_template(PAGE).render(page) + "\n"


def tally(scaled: Sequence[ScaledClaim]) -> dict[str, int]:
    """How many of the paper's claims got which verdict at a scale."""
    of_paper = [each.judged for each in scaled if not each.claim.ours]
    seen = Counter(map(kind_of, of_paper))
    return {"claims": len(of_paper), **{kind: seen[kind] for kind in KINDS}}


def kind_of(judged: Judged) -> str:
    """The verdict, or why there can be none."""
    if judged.whole:
        return judged.verdict
    return "unready" if judged.run else "not run"


def said(each: ScaledClaim | None) -> str:
    """A verdict with the effect, for a cell of the short table."""
    if each is None:
        return "–"
    judged = each.judged
    if not judged.run:
        return judged.why
    verdict = judged.verdict if judged.verdict == "undecided" else f"**{judged.verdict}**"
    if judged.effect.half is None:
        return f"{verdict}: {judged.why}"
    verdict += f" {SIGNS}" if judged.why.startswith(SIGNS) else ""
    return f"{verdict}, {in_points(judged.effect)}"


def in_points(effect: Estimate) -> str:
    """How large, with its interval where there is one."""
    if effect.mean is None:
        return ""
    half = "" if effect.half is None else f" ± {100 * effect.half:.1f}"
    return f"{100 * effect.mean:+.1f}{half}"


def rows(scaled: Mapping[str, ScaledClaim]) -> Iterator[list[str]]:
    """Each place of a claim, with what every scale that has runs says there."""
    run = [each for each in scaled.values() if each.judged.run]
    named = [{(j.place.where, j.place.part): j for j in each.judged.places} for each in run]
    for where, part in dict.fromkeys(key for places in named for key in places):
        yield [where, part, *(shown(places.get((where, part))) for places in named)]


def shown(found: JudgedPlace | None) -> str:
    """A difference, its corrected interval and the verdict of its place."""
    if found is None or found.mean is None:
        return "–"
    n = len(found.place.differences)
    if found.low is None or found.high is None:
        return f"{100 * found.mean:+.1f}, n = {n}"
    ends = f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{100 * found.mean:+.1f} {ends}, n = {n}: {found.verdict}"


def ordered(found: Found) -> Iterator[list[str]]:
    """For each column of the paper's tables: how many of its orderings are found here."""
    for scale, everything in found.items():
        for _, results in sorted(everything.items()):
            for row in agreement(results):
                yield [scale, *map(str, row)]


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
