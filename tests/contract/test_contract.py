"""Every registered method through every clause, and every clause on a method that breaks it."""

from __future__ import annotations

import dataclasses
from typing import Any

import clauses
import pytest
from toys import factory

from flr.core import registry
from flr.core.errors import FlrError
from flr.report import html, plots

METHODS: list[Any] = [
    entry.name
    for entry in registry.entries("method").values()
    if entry.factory.__module__.startswith("flr.")
]
STACKS: list[Any] = [
    ["flr", other]
    for other in (
        "mixup",
        "dividemix",
        "fedprox",
        "feddyn",
        "gce",
        "ls",
        "fednoro",
        "fedelc",
        "maskedoptim",
        "fedsir",
        "fedrg",
    )
]
VARIANTS: list[Any] = [  # options that change what is kept or when the network is asked
    {"name": "flr", "server_predictions": "round"},
    {"name": "flr", "table_dtype": "float16"},
    {"name": "flr", "server_predictions": "round", "table_dtype": "float16", "top_k": 3},
]

BROKEN = [  # method, clause, what the failure says
    ("broken-rerun", clauses.rerun, "other bits"),
    ("broken-workers", clauses.workers, "bits"),
    ("broken-resume", clauses.resume_at_every_step, "bits"),
    ("broken-rerun", clauses.resume_after_kill, "bits"),
    ("broken-rerun", clauses.through_flower, "bits"),
    ("broken-drop", clauses.drop, r"\d"),  # the KeyError of a client that is missing
    ("broken-nan", clauses.refuse_bad_update, "not finite"),
    ("broken-nan", clauses.refuse_malformed_arrays, "not finite"),
    ("broken-batchnorm", clauses.batchnorm_with_a_last_batch_of_one, "more than 1 value"),
    ("broken-single", clauses.site_of_one_sample, "NaN"),
    ("broken-undeclared", clauses.nothing_undeclared_leaves, "does not declare"),
    ("broken-smuggle", clauses.nothing_undeclared_leaves, "does not declare"),
    ("broken-clean", clauses.no_clean_label_in_reach, "in reach"),
    ("broken-state", clauses.state_round_trip, "in place"),
    ("broken-hoard", clauses.state_round_trip, "than it declares"),
    ("broken-bytes", clauses.message_bytes_as_described, "less than"),
    ("broken-lam", clauses.without_its_term_it_is_fedavg, "other bits"),
]


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Pictures and pages have tests of their own and take longer than the training here."""
    monkeypatch.setattr(plots, "curves", lambda *_: None)
    monkeypatch.setattr(html, "run_page", lambda *_: None)


def applies(method: Any, clause: Any) -> bool:
    """lam = 0 is a clause for the methods that have such a knob, and all of whose term it is."""
    if clause is not clauses.without_its_term_it_is_fedavg:
        return True
    return isinstance(method, str) and "lam" in {
        f.name for f in dataclasses.fields(factory(method))
    }


def label(value: Any) -> str:
    if isinstance(value, dict):
        return "-".join(str(part) for part in value.values())
    return "+".join(value) if isinstance(value, list) else getattr(value, "__name__", str(value))


@pytest.mark.parametrize(
    ("name", "clause"),
    [(m, c) for c in clauses.CLAUSES for m in METHODS + STACKS + VARIANTS if applies(m, c)],
    ids=label,
)
def test_every_method_keeps_every_clause(name, clause, tmp_path, monkeypatch):
    clause(name, tmp_path, monkeypatch)


@pytest.mark.parametrize(("name", "clause", "reason"), BROKEN, ids=label)
def test_every_clause_fails_on_a_broken_method(name, clause, reason, tmp_path, monkeypatch):
    import broken  # noqa: F401 - registers them, after METHODS was read

    failures = (AssertionError, FlrError, KeyError)
    with pytest.raises(failures, match=reason) as caught:
        clause(name, tmp_path, monkeypatch)
    assert "is not known" not in str(caught.value)


def test_every_clause_is_shown_to_fail():
    assert {clause for _, clause, _ in BROKEN} == set(clauses.CLAUSES)
