"""The audit in sentences, for people who know the data and not the method."""

from __future__ import annotations

from flr.audit.evidence import TABLES, VIEWS, Evidence
from flr.audit.scores import FEWEST, FLAGGED, Scores, readers
from flr.report.formatting import share

_HARDLY = 0.01  # a share below which "hardly any" is no exaggeration
WHO = {
    "site": "the site's own models, trained without this sample,",
    "neighbours": "the most similar samples",
    "global": "the federation in training",
    "local": "this site's model in training",
    "model": "the final model",
}
_MEMORIZED = (
    "The models were trained on these labels, and may repeat some of the wrong ones: those look "
    "right here."
)
_ALIKE_SITES = "Mistakes that most sites make alike look right to every model of the federation."
_ALIKE = "Mistakes that most similar samples share look right to every classifier."
_NEITHER = "Samples that belong to none of the classes, or to several, were not looked for."

Vote = tuple[int, float, float]  # a view's class, that one's share, the given label's share


def verdict(evidence: Evidence, rate: float, low: float, high: float, unknown: str | None) -> str:
    """The result in one sentence; `unknown` is why there is none."""
    labels = f"{len(evidence):,} label{'' if len(evidence) == 1 else 's'}"
    if unknown is not None:
        return f"How many of {labels} are wrong cannot be said: {unknown}."
    if high < _HARDLY:
        return f"Hardly any of {labels} look wrong (at most {share(max(high, 0.01))})."
    between = f"{100 * low:.0f} and {100 * high:.0f} %"
    return f"About {share(rate)} of {labels} look wrong (between {between})."


def votes(evidence: Evidence, row: int) -> dict[str, Vote]:
    """What each view that knows the sample says of it."""
    given, found = int(evidence.given[row]), {}
    for name in (name for name in VIEWS if name in evidence.views):
        view = evidence.views[name]
        if bool(evidence.known(name)[row]):
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
    """What the views say, those together that name the same class."""
    said, given = votes(evidence, row), int(evidence.given[row])
    by_class: dict[int, list[str]] = {}
    for name, (top, _, _) in said.items():
        by_class.setdefault(top, []).append(name)
    parts = []
    for top, names in by_class.items():
        who = _listed([WHO[name] for name in names])
        shares = _listed(list(dict.fromkeys(share(said[name][1]) for name in names)))
        verb = "says" if len(names) == 1 and names[0] != "neighbours" else "say"
        words = f"{who} {verb} {_quoted(evidence.classes[top])} ({shares})"
        parts.append(words + (", as given" if top == given else ""))
    text = "; ".join(parts)
    most = max((own for _, _, own in said.values()), default=0.0)
    if given not in by_class:
        at_most = share(most)
        amount = at_most if at_most.startswith("less") else f"at most {at_most}"
        text += f"; {_quoted(evidence.classes[given])} gets {amount}"
    return f"{text[:1].upper()}{text[1:]}."


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def unchecked(evidence: Evidence, more: int) -> tuple[str, ...]:
    """What a reader could think was checked, and was not; `more` suspects are not listed."""
    n, counts = len(evidence), evidence.given.bincount()
    tables = [name for name in TABLES if name in evidence.views]
    new = n - int(evidence.known(tables[0]).sum()) if tables else 0
    few = int(((counts > 0) & (counts < FEWEST)).sum())
    said = []
    if new:
        said.append(f"Training had not visited {new:,} of {n:,} samples.")
    if few:
        have = f"{few:,} {'class has' if few == 1 else 'classes have'} fewer than {FEWEST} labels"
        said.append(f"{have}: too few to say how often they are wrong.")
    if more:
        said.append(f"{more:,} more labels are probably wrong than the list holds.")
    trained = any(name in evidence.views for name in ("global", "local", "model"))
    alike = f"{_ALIKE_SITES if trained else _ALIKE} {_NEITHER}"
    return (*said, *([_MEMORIZED] if readers(evidence) else []), alike)


def _quoted(name: str) -> str:
    return f"“{name}”"
