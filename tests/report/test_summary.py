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
