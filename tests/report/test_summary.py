"""The summary: made from lines alone, without NaN, small for any number of clients."""

import json
from pathlib import Path

import pytest

from flr.core.errors import DataError
from flr.report import summary
from flr.report.memorization import KEYS
from flr.report.summary import NoiseRates, summarize


def test_every_key(metrics, facts) -> None:
    found = summarize(metrics, **facts())
    assert set(found) == {
        "method", "seed", "rounds", "scenario", "accuracy", "memorization", "noise", "attack",
        "seconds", "bytes", "dropped", "refused", "metrics", "selection", "remarks",
    }  # fmt: skip
    assert set(found["accuracy"]) == {
        "best", "best_round", "last", "last10", "per_class", "commonest",
    }  # fmt: skip
    assert set(found["memorization"]) == {"server", "client", "client_noisy", "last10"}
    assert set(found["memorization"]["server"]) == set(KEYS)
    assert set(found["memorization"]["last10"]) == {"server", "client", "client_noisy"}
    assert found["bytes"] == {"up": 60_000, "down": 120_000}
    assert (found["dropped"], found["refused"]) == (3, 1)
    assert found["noise"]["per_client"][1] == {"client": 1, "nominal": 0.6, "realised": 0.54}


def test_best_last_and_last10(metrics, facts) -> None:
    for line, value in zip(metrics, [0.5] * 30 + [0.9] * 2 + [0.6] * 28, strict=True):
        line["accuracy"] = value
    metrics[-1]["accuracy"] = 0.7
    found = summarize(metrics, **facts())["accuracy"]
    assert (found["best"], found["best_round"], found["last"]) == (0.9, 31, 0.7)
    assert found["last10"] == pytest.approx(0.61)


def test_rounds_that_were_not_measured_do_not_count(make_run, facts) -> None:
    metrics = make_run(20)
    for line in metrics:
        if line["round"] % 2:
            del line["accuracy"], line["memorization"]
    found = summarize(metrics, **facts(rounds=20))
    even = [line["accuracy"] for line in metrics[10:] if "accuracy" in line]
    assert found["accuracy"]["last10"] == pytest.approx(sum(even) / 5)
    assert found["memorization"]["server"] == metrics[-1]["memorization"]["server"]


def test_a_run_without_rounds_and_many_clients(facts) -> None:
    noise = NoiseRates(None, None, (0.0,) * 100_000, (None,) * 100_000)
    text = json.dumps(summarize([], **facts(noise=noise)), allow_nan=False)
    assert len(text) < 3000
    assert json.loads(text)["accuracy"]["last"] is None
    assert json.loads(text)["noise"]["per_client"] is None


def test_written_and_read(tmp_path: Path, metrics, facts) -> None:
    found = summarize(metrics, **facts())
    summary.save(tmp_path, found)
    assert summary.load(tmp_path) == found


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"method": 3}', "\xff", "null"])
def test_a_broken_summary_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match="flr resume"):
        summary.load(tmp_path)


def test_an_unfinished_run_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"finished run .* has no summary.json"):
        summary.load(tmp_path)


def scored(metrics, values) -> list:
    """The lines with what sites count of ten labels."""
    for line, right in zip(metrics, values, strict=True):
        line["validation"] = {"accuracy": right / 10, "right": right, "samples": 10}
    return metrics


def test_the_first_of_equally_good_rounds_is_chosen(make_run, facts) -> None:
    metrics = scored(make_run(5), [1, 7, 6, 7, 2])
    metrics[3]["validation"] = {"accuracy": 0.7, "right": 14, "samples": 20}
    found = summarize(metrics, **facts(rounds=5, selects=True, planned=9))
    accuracy, chosen = found["accuracy"], found["selection"]
    assert (chosen["kept"], chosen["round"], chosen["score"]) == ("validation", 2, 0.7)
    assert (chosen["samples"], chosen["planned"]) == (10, 9)
    assert chosen["accuracy"] == metrics[1]["accuracy"]
    assert chosen["cost"] == pytest.approx(accuracy["best"] - metrics[1]["accuracy"])
    assert chosen["gain"] == pytest.approx(metrics[1]["accuracy"] - accuracy["last"])


def test_a_choice_whose_accuracy_nobody_measured_costs_nobody_knows_what(make_run, facts) -> None:
    metrics = scored(make_run(2), [7, 6])
    del metrics[0]["accuracy"]
    chosen = summarize(metrics, **facts(rounds=2))["selection"]
    assert (chosen["kept"], chosen["accuracy"], chosen["cost"], chosen["gain"]) == (
        "last", None, None, None,
    )  # fmt: skip


def test_a_run_that_learned_nothing_is_told_so(metrics, facts) -> None:
    assert summarize(metrics, **facts(commonest=0.3, largest=2.0))["remarks"] == []
    metrics[-1]["accuracy"] = 0.1
    (one,) = summarize(metrics, **facts(commonest=0.1, largest=2.0))["remarks"]
    assert one.startswith("Nothing was learned: the model of the last round is right on 10.0 %")
    assert "round 59 had reached" in one
    (two,) = summarize(metrics, **facts(commonest=0.05, largest=1e9))["remarks"]
    assert "the largest weight of the model is 1e+09" in two
    assert "Lower [train] lr" in one
    assert "Lower [train] lr" in two


def test_sites_are_listed_up_to_a_thousand(metrics, facts) -> None:
    for sites, listed in ((1000, True), (1001, False)):
        metrics[-1]["metrics"] = {"site-accuracy": [0.5] * sites}
        found = summarize(metrics, **facts())["metrics"]["site-accuracy"]
        assert (found["last"] is not None) == listed
