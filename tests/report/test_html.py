"""Reports: self-contained, escaped, and honest about what was not measured."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flr.report import html, plots, summary
from flr.report.formatting import percent, share, size
from flr.report.html import verdict
from flr.report.jsonl import append
from flr.report.memorization import KEYS
from flr.report.summary import NoiseRates


class Reader(HTMLParser):
    """Notes tags and addresses, and that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_run_page_is_one_escaped_file(run_folder: Path) -> None:
    path = html.run_page(run_folder, ["the weights", "<b>nothing</b> else"])
    text = path.read_text()
    page = Reader(text)
    assert path == run_folder / "report.html"
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;b&gt;nothing&lt;/b&gt; else" in text
    assert "a &lt; b" in text
    assert "NaN in &lt;w&gt;" in text
    (picture,) = page.addresses
    assert base64.b64decode(picture.split(",")[1]) == (run_folder / "curves.png").read_bytes()
    assert not re.search(r"https?://|url\(|@import", text)


def test_run_page_begins_with_the_verdict(run_folder: Path) -> None:
    text = html.run_page(run_folder, []).read_text()
    words = (
        "After 60 rounds the model is right on 94.9 % of the test set; of the labels that are "
        "wrong, clients had memorized 10 % and the server 7 %."
    )
    assert text.index(words) < text.index("<table>")
    assert "2 × 3" in text  # client 2 dropped out three times
    assert f"flr run {run_folder.name}/config.toml" in text
    assert "54.0 %" in text


def test_run_page_without_evaluation_and_without_noise(tmp_path: Path, metrics, facts) -> None:
    for line in metrics:
        del line["accuracy"], line["accuracy_per_class"], line["memorization"]
        line["refused"] = []
    append(tmp_path / "metrics.jsonl", metrics)
    quiet = NoiseRates(0.0, 0.0, (0.0,), (0.0,))
    summary.save(tmp_path, summary.summarize(metrics, **facts(noise=quiet)))
    text = html.run_page(tmp_path, [], again="flr.run(config, data=(x, y))").read_text()
    Reader(text)
    assert "its accuracy was not measured; no label of the sites was made wrong" in text
    assert "no round of this run was evaluated" in text
    assert "flr.run(config, data=(x, y))" in text
    assert "None" not in text.replace("<p>None.</p>", "")
    assert not re.search(r">\s*nan\b", text, re.IGNORECASE)


def test_comparison_page(tmp_path: Path, make_run, facts) -> None:
    runs = {"fedavg": make_run(memorized=0.9, top=0.8), "flr": make_run()}
    plots.comparison(runs, tmp_path / "comparison.png")
    found = {k: summary.summarize(m, **facts(method=f"<i>{k}")) for k, m in runs.items()}
    text = html.comparison_page(tmp_path, found).read_text()
    page = Reader(text)
    assert "i" not in page.tags
    assert [a for a in page.addresses if not a.startswith("data:")] == [
        "fedavg/report.html",
        "flr/report.html",
    ]
    assert "All runs have the same split" in text


def _summary(last, server, client, realised=0.3, rounds=60):
    shares = {side: dict.fromkeys(KEYS) for side in ("server", "client")}
    shares["server"]["noisy_memorized"] = server
    shares["client"]["noisy_memorized"] = client
    return {
        "rounds": rounds,
        "accuracy": {"last": last},
        "noise": {"realised": realised},
        "memorization": shares,
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_summary(0.954, 0.06, 0.09), "clients had memorized 9 % and the server 6 %."),
        (_summary(0.9, 0.06, None), "the server had memorized 6 % (the clients of the last round"),
        (_summary(0.9, None, None), "what was memorized of wrong labels was not measured."),
        (_summary(0.9, None, None, 0), "so memorizing was not measured."),
        (_summary(None, 0.06, 0.09, rounds=1), "After 1 round there is a model, but its accuracy"),
    ],
)
def test_verdicts(found, words: str) -> None:
    assert words in verdict(found)


def test_numbers_in_words() -> None:
    assert [share(v) for v in (0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "0 %", "less than 1 %", "50 %", "more than 99 %", "100 %",
    ]  # fmt: skip
    assert [percent(None), percent(0.9541)] == ["–", "95.4 %"]
    assert [size(12), size(1500), size(2e9), size(5e15)] == ["12 bytes", "1.5 kB", "2.0 GB",
                                                            "5000.0 TB"]  # fmt: skip


def test_the_choice_and_the_metrics_are_on_the_page(tmp_path: Path, metrics, facts) -> None:
    for line in metrics:
        right = 9 if line["round"] == 30 else 5
        line["validation"] = {"accuracy": right / 10, "right": right, "samples": 10}
        line["metrics"] = {"macro-f1": 0.625, "auroc": None, "site-accuracy": [0.5, 0.25, None]}
    append(tmp_path / "metrics.jsonl", metrics)
    found = summary.summarize(metrics, **facts(selects=True, planned=80, largest=1e9))
    summary.save(tmp_path, found)
    text = html.run_page(tmp_path, []).read_text()
    Reader(text)
    words = "After 60 of 80 rounds the model of round 30, chosen by labels that no site trains on"
    assert words in " ".join(text.split())
    assert "The model file holds this model." in text
    assert "The run ended after round 60 of 80" in text
    assert "62.5 %" in text
    assert "Accuracy at each of 3 sites" in text
    assert "Training has diverged" in text
    assert f"<td>{100 * found['selection']['gain']:+.1f}</td>" in text
