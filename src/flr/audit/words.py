"""The audit in sentences, for people who know the data and not the method."""

from __future__ import annotations

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.scores import Scores, constant_opinion
from flr.report.words import share

FLAGGED = 0.5  # from this probability on, a label is called a suspect
_FEW = 5  # labels of a class about which little can be said


def verdict(evidence: Evidence, rate: float, low: float, high: float) -> str:
    """The result in one sentence."""
    labels = f"{len(evidence):,} label{'' if len(evidence) == 1 else 's'}"
    if (same := constant_opinion(evidence)) is not None:
        return (
            f"Nothing can be said about {labels}: the federation's model says "
            f"{_quoted(evidence.classes[same])} to nearly every sample."
        )
    if rate < 0.005:
        return f"Hardly any of {labels} look wrong (at most {share(max(high, 0.01))})."
    between = f"{100 * low:.0f} and {100 * high:.0f} %"
    return f"About {share(rate)} of {labels} look wrong (between {between})."


def reason(evidence: Evidence, scores: Scores, row: int, pair_rate: float) -> str:
    """Why a label is a suspect, or why not although a model says something else.

    `pair_rate` is the share of labels of this class that are really the suggested one.
    """
    given = evidence.classes[int(evidence.given[row])]
    suggested = evidence.classes[int(scores.suggested[row])]
    return f"{_votes(evidence, row)} {_sum(float(scores.wrong[row]), given, suggested, pair_rate)}"


def votes(evidence: Evidence, row: int) -> dict[str, tuple[int, float, float]]:
    """Of each view that knows the sample: its class, that one's share, the given label's share."""
    given, found = int(evidence.given[row]), {}
    for name, view in evidence.views.items():
        if name == "model" or bool(evidence.tables[row]):
            top = int(view[row].argmax())
            found[name] = (top, float(view[row, top]), float(view[row, given]))
    return found


def _votes(evidence: Evidence, row: int) -> str:
    said, given = votes(evidence, row), int(evidence.given[row])
    label = _quoted(evidence.classes[given])
    if "global" not in said or "local" not in said:
        return "The model says " + _vote(evidence, said["model"], given, label) + "."
    federation, site = said["global"], said["local"]
    if federation[0] != site[0]:
        return (
            f"The federation says {_vote(evidence, federation, given, label)}; "
            f"this site says {_vote(evidence, site, given, label)}."
        )
    both = (
        f"The federation and this site both say {_quoted(evidence.classes[site[0]])} "
        f"({_two(federation[1], site[1])})"
    )
    if site[0] == given:
        return both + ", as given."
    return both + f"; {label} gets {_two(federation[2], site[2])}."


def _vote(evidence: Evidence, vote: tuple[int, float, float], given: int, label: str) -> str:
    said = f"{_quoted(evidence.classes[vote[0]])} ({share(vote[1])})"
    return f"{said}, as given" if vote[0] == given else f"{said} and gives {label} {share(vote[2])}"


def _two(federation: float, site: float) -> str:
    first, second = share(federation), share(site)
    return f"{first} from each" if first == second else f"{first} and {second}"


def _sum(wrong: float, given: str, suggested: str, pair_rate: float) -> str:
    of_all = share(pair_rate)
    amount = of_all if of_all.startswith("less") else f"about {of_all}"
    here = f"{amount} of the labels {_quoted(given)} here are really {_quoted(suggested)}"
    if wrong >= FLAGGED:
        return f"Wrong with probability {share(wrong)}; {here}."
    below = f"not the {share(FLAGGED)} of a suspect"
    return f"Wrong with probability {share(wrong)}, {below}; only {here}."


def unchecked(evidence: Evidence, more: int) -> tuple[str, ...]:
    """What a reader could think was checked, and was not; `more` suspects are not listed."""
    said = []
    new = len(evidence) - int(evidence.tables.sum())
    if evidence.visited is not None and new:
        said.append(
            f"FLR had not visited {new:,} of {len(evidence):,} samples: about these, only the "
            "model was asked."
        )
    few = int(((counts := evidence.given.bincount()) > 0).logical_and(counts < _FEW).sum())
    if few:
        said.append(
            f"{few:,} {'class has' if few == 1 else 'classes have'} fewer than {_FEW} labels: too "
            "few to say how often they are wrong."
        )
    if len(evidence.classes) > noise_model.MOST_CLASSES:
        said.append(
            f"With {len(evidence.classes):,} classes, it was not checked whether some are taken "
            "for others by rule."
        )
    if more:
        said.append(f"{more:,} more labels are probably wrong than the list holds.")
    if evidence.trained:
        said.append(
            "The models were trained on these labels, and may repeat some of the wrong ones: those "
            "look right here."
        )
    said.append(
        "Mistakes that most sites make alike look right to every model of the federation. Samples "
        "that belong to none of the classes, or to several, were not looked for."
    )
    return tuple(said)


def _quoted(name: str) -> str:
    return f"“{name}”"
