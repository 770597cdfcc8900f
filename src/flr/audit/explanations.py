"""The audit in sentences, for people who know the data and not the method."""

from __future__ import annotations

from flr.audit import noise_model
from flr.audit.evidence import Evidence
from flr.audit.scores import Scores, constant_prediction
from flr.report.formatting import share

FLAGGED = 0.5  # from this probability on, a label is called a suspect
_FEW = 5  # labels of a class about which little can be said
_MEMORIZED = (
    "The models were trained on these labels, and may repeat some of the wrong ones: those look "
    "right here."
)
_ALIKE = (
    "Mistakes that most sites make alike look right to every model of the federation. Samples that "
    "belong to none of the classes, or to several, were not looked for."
)

Vote = tuple[int, float, float]  # a view's class, that one's share, the given label's share


def verdict(evidence: Evidence, rate: float, low: float, high: float) -> str:
    """The result in one sentence."""
    labels = f"{len(evidence):,} label{'' if len(evidence) == 1 else 's'}"
    if (same := constant_prediction(evidence)) is not None:
        return (
            f"Nothing can be said about {labels}: the federation's model says "
            f"{_quoted(evidence.classes[same])} to nearly every sample."
        )
    if rate < 0.005:
        return f"Hardly any of {labels} look wrong (at most {share(max(high, 0.01))})."
    between = f"{100 * low:.0f} and {100 * high:.0f} %"
    return f"About {share(rate)} of {labels} look wrong (between {between})."


def votes(evidence: Evidence, row: int) -> dict[str, Vote]:
    """What each view that knows the sample says of it."""
    given, found = int(evidence.given[row]), {}
    for name, view in evidence.views.items():
        if name == "model" or bool(evidence.tables[row]):
            top = int(view[row].argmax())
            found[name] = (top, float(view[row, top]), float(view[row, given]))
    return found


def reason(evidence: Evidence, scores: Scores, row: int, pair_rate: float) -> str:
    """Why a label is a suspect, or why not although a model says something else.

    `pair_rate` is the share of labels of this class that are really the suggested one.
    """
    given, suggested = (
        _quoted(evidence.classes[int(labels[row])]) for labels in (evidence.given, scores.suggested)
    )
    of_all, wrong = share(pair_rate), float(scores.wrong[row])
    amount = of_all if of_all.startswith("less") else f"about {of_all}"
    here = f"{amount} of the labels {given} here are really {suggested}"
    if wrong < FLAGGED:
        here = f"not the {share(FLAGGED)} of a suspect; only {here}"
    joint = ";" if wrong >= FLAGGED else ","
    return f"{_in_words(evidence, row)} Wrong with probability {share(wrong)}{joint} {here}."


def _in_words(evidence: Evidence, row: int) -> str:
    said, given = votes(evidence, row), int(evidence.given[row])
    label = _quoted(evidence.classes[given])

    def each(vote: Vote) -> str:
        says = f"{_quoted(evidence.classes[vote[0]])} ({share(vote[1])})"
        return says + (", as given" if vote[0] == given else f" and gives {label} {share(vote[2])}")

    if "global" not in said or "local" not in said:
        return f"The model says {each(said['model'])}."
    federation, site = said["global"], said["local"]
    if federation[0] != site[0]:
        return f"The federation says {each(federation)}; this site says {each(site)}."
    same = _quoted(evidence.classes[site[0]])
    both = f"The federation and this site both say {same} ({_two(federation[1], site[1])})"
    if site[0] == given:
        return both + ", as given."
    return both + f"; {label} gets {_two(federation[2], site[2])}."


def unchecked(evidence: Evidence, more: int) -> tuple[str, ...]:
    """What a reader could think was checked, and was not; `more` suspects are not listed."""
    n, classes, counts = len(evidence), len(evidence.classes), evidence.given.bincount()
    new, few = n - int(evidence.tables.sum()), int(((counts > 0) & (counts < _FEW)).sum())
    said = []
    if evidence.visited is not None and new:
        asked = "about these, only the model was asked."
        said.append(f"Training had not visited {new:,} of {n:,} samples: {asked}")
    if few:
        have = f"{few:,} {'class has' if few == 1 else 'classes have'} fewer than {_FEW} labels"
        said.append(f"{have}: too few to say how often they are wrong.")
    if classes > noise_model.MOST_CLASSES:
        rule = "it was not checked whether some are taken for others by rule."
        said.append(f"With {classes:,} classes, {rule}")
    if more:
        said.append(f"{more:,} more labels are probably wrong than the list holds.")
    return (*said, *([_MEMORIZED] if evidence.trained else []), _ALIKE)


def _two(federation: float, site: float) -> str:
    first, second = share(federation), share(site)
    return f"{first} from each" if first == second else f"{first} and {second}"


def _quoted(name: str) -> str:
    return f"“{name}”"
