"""Texts by the command line: trained on, predicted, evaluated, audited, embedded."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

GOOD = ("a fine film", "what a joy", "lovely and warm", "bright, funny, kind", "I was moved")
BAD = ("a dull film", "what a bore", "cold and cruel", "grey, loud, long", "I was asleep")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Sixty short texts with their labels, and a config that trains on them."""
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for number in range(30):
            rows.writerow((f"{GOOD[number % 5]}, {number} times", "good"))
            rows.writerow((f"{BAD[number % 5]}, {number} times", "bad"))
    (tmp_path / "texts.toml").write_text(
        f"""rounds = 8
workers = 1
[data]
name = "texts"
path = "{path}"
backbone = "wordllama"
[partition]
clients = 2
[train]
participation = 1.0
"""
    )
    return path


def test_texts_are_trained_on_and_looked_at_by_every_command(cli, reviews, tmp_path):
    run = tmp_path / "run"
    result = cli("run", str(tmp_path / "texts.toml"), "--out", str(run))
    assert result.code == 0, result.err
    result = cli("evaluate", str(run), str(reviews), "--json")
    assert json.loads(result.out)["accuracy"] > 0.9
    bare = tmp_path / "new.jsonl"
    bare.write_text('{"text": "what a lovely joy"}\n{"text": "cold and dull"}\n')
    predicted = [
        row["predicted"]
        for row in csv.DictReader(cli("predict", str(run), str(bare)).out.splitlines())
    ]
    assert predicted == ["good", "bad"]
    result = cli("audit", "--data", str(reviews), "--model", str(run), "--out", str(tmp_path / "a"))
    assert result.code == 0, result.err
    assert "a dull film" in (tmp_path / "a" / "audit.html").read_text()
    result = cli("audit", str(run), "--client", "0")
    assert result.code == 0, result.err


def test_texts_are_embedded_into_a_file_that_trains(cli, reviews, tmp_path):
    out = tmp_path / "features.npz"
    result = cli("embed", str(reviews), "--backbone", "wordllama", "--out", str(out))
    assert result.code == 0, result.err
    settings = ["--set", "data.name=npz", "--set", f"data.path={out}", "--set", "rounds=1"]
    config = tmp_path / "npz.toml"
    config.write_text("rounds = 1\n[partition]\nclients = 2\n")
    result = cli("run", str(config), *settings, "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
