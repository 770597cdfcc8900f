"""What audit_in_federation.py compares at each site: the audit, and cleanlab on what there is.

cleanlab has its best chance: on heads of the site's own features (out of sample), on FedAvg's
model, on FedAvg stopped early and on FLR's model, in each of six ways to rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.studies.audit_arms import issues, rankings
from benchmarks.studies.audit_on_features_ways import STRENGTHS, Table
from flr.audit.evidence import OUTSIDE, Evidence
from flr.audit.findings import Rate, audit, scores_of
from flr.report.audit_truth import Judged, Measured, average_precision, measure

SOURCES = {  # what cleanlab is run on -> the predictions that it is given
    "own features": tuple(f"regression {strength}" for strength in STRENGTHS),
    "FedAvg": ("fedavg",),
    "FedAvg early": ("early",),
    "FLR's model": ("flr model",),
}
KEPT = ("rate", "rate_error", "average_precision", "calibration_error", "interval_covers")
ORDERS = ("nearest", "loss", "margin")
# what the audit is given besides features -> names of what was kept, by view
AUDITS: dict[str, dict[str, str]] = {
    "audit": {"global": "flr global", "local": "flr local", "model": "flr model"},
    "audit, FedAvg's model": {"model": "fedavg"},
    "audit, no model": {},
}


def measured(classes: tuple[str, ...], sites: Sequence[Table]) -> dict[str, dict[str, Measured]]:
    """The audit at each site, and of every other way the mean over the sites.

    Average precision is that of sites that have a wrong label.
    """
    return {
        "audits": {
            f"{way}, {number}": audited(evidence_of(classes, known, views), known)
            for number, known in enumerate(sites)
            for way, views in AUDITS.items()
        },
        "ways": means([others(known) for known in sites]),
    }


def evidence_of(classes: tuple[str, ...], known: Table, views: Mapping[str, str]) -> Evidence:
    """What a steward of the site has."""
    own = {name: known[name] for name in OUTSIDE}
    own |= {view: known[name] for view, name in views.items() if name in known}
    names = [str(row) for row in range(len(known["given"]))]
    visited = known.get("visited") if "global" in own else None
    return Evidence("site", names, classes, known["given"], own, visited, "features")


def audited(evidence: Evidence, known: Table) -> Measured:
    """The audit beside the truth."""
    scores = scores_of(evidence)
    found = audit(evidence, scores=scores)
    judged = Judged(scores.wrong, scores.suggested, evidence.given, known["true"], found.rate)
    own: Measured = {"width": found.rate.high - found.rate.low, "sure": float(found.sure)}
    return {name: value for name, value in measure(judged).items() if name in KEPT} | own


def others(known: Table) -> dict[str, Measured]:
    """cleanlab on every source in every way, and what ranks only."""
    given, true = known["given"], known["true"]
    ways: dict[str, Measured] = {}
    for source, names in SOURCES.items():
        for name in names:
            p = known[name]
            flagged = float(issues(given, p, "confident_learning").double().mean())
            rate = Rate(flagged, flagged, flagged)
            for way, ranked in rankings(given, p).items():
                found = measure(Judged(ranked.wrong, ranked.suggested, given, true, rate))
                key = f"{source}: {name}, {way}"
                ways[key] = {k: found[k] for k in KEPT if k != "interval_covers"}
    for way in ORDERS:
        ways[way] = {"average_precision": average_precision(known[way], given != true)}
    return ways


def means(sites: Sequence[Mapping[str, Measured]]) -> dict[str, Measured]:
    """Over the sites at which a number means something; of errors of a rate, their size."""
    found: dict[str, Measured] = {}
    for way, keys in sites[0].items():
        found[way] = {}
        for key in keys:
            values = [value for site in sites if (value := site[way][key]) is not None]
            sizes = [abs(value) for value in values] if key == "rate_error" else values
            found[way][key] = round(fmean(sizes), 5) if sizes else None
    return found
