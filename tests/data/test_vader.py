"""VADER's files: classes by mean, every rater's class, four sites, and what does not belong."""

from __future__ import annotations

import pytest
import torch

from flr.core.errors import DataError
from flr.data.sources.vader import CLASSES, CORPORA, Vader, class_of
from flr.scenario import scenario as scenarios
from flr.scenario.noises.human import Human
from flr.scenario.partitions.column import Column
from flr.scenario.truth import Truth

RATINGS = {
    "negative": [-1, -2, 0, -1, 1],  # two of five see something else
    "neutral": [0, 0, 1, 0, 0],
    "positive": [3, 4, 2, 1, -1],
}


def write_corpus(folder, stem, each=10, moved=()):
    """Sentences with ratings by class; those of `moved` have the mean of another sentence."""
    texts, ratings = [], []
    for i in range(3 * each):
        own = RATINGS[CLASSES[i % 3]]
        mean = sum(own) / len(own)
        texts.append(f"{i}_1\t{mean + (i in moved):.11f}\t{stem} sentence {i}, naïve")
        ratings.append(f"{i}_1\t{mean:.9f}\t0.5\t{own}")
    (folder / f"{stem}_GroundTruth.txt").write_bytes(("\r\n".join(texts) + "\r\n").encode())
    (folder / f"{stem}_anonDataRatings.txt").write_bytes(("\ufeff" + "\r\n".join(ratings)).encode())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vader").mkdir()
    for number, stem in enumerate(CORPORA.values()):
        write_corpus(tmp_path / "vader", stem, 10 + 5 * number, (0, 4) if number == 0 else ())
    return tmp_path / "vader"


def test_classes_sites_and_raters(folder, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(folder.parent))
    data = Vader().load()
    assert (data.classes, data.site_names) == (CLASSES, tuple(CORPORA))
    assert len(data.train) + len(data.test) == 3 * (10 + 15 + 20 + 25) - 2
    for part in (data.train, data.test):
        texts = part.x[:]
        for text, y, site, number in zip(texts, part.y, part.site, part.number, strict=True):
            stem, i = text.split(" ")[0], int(text.split(" ")[2].strip(","))
            assert stem == list(CORPORA.values())[site]
            assert y == i % 3
            assert data.raters[int(number)].tolist() == [*map(class_of, RATINGS[CLASSES[y]])]
            assert not (stem == "tweets" and i in (0, 4))  # their ratings are another tweet's
    assert data.fingerprint == Vader(folder).load().fingerprint


def test_where_a_sentence_is_from_can_be_the_class(folder):
    data, whole = Vader(folder, target="corpus").load(), Vader(folder).load()
    assert data.classes == tuple(CORPORA)
    assert data.raters is None
    assert len(data.train) + len(data.test) == len(whole.train) + len(whole.test)
    for text, y in zip(data.train.x[:], data.train.y.tolist(), strict=True):
        assert text.startswith(list(CORPORA.values())[y])
    assert data.test.y.bincount().tolist() == [6, 9, 12, 15]  # a fifth


def test_a_fifth_of_every_class_at_every_site_is_for_testing(folder):
    data = Vader(folder).load()
    for site in range(4):
        for label in range(3):
            train, test = (
                int(((part.site == site) & (part.y == label)).sum())
                for part in (data.train, data.test)
            )
            assert abs(test - (train + test) / 5) < 1


@pytest.mark.parametrize(
    ("rating", "name"),
    [(-4, "negative"), (-0.5, "negative"), (-0.49, "neutral"), (0, "neutral"), (0.5, "positive")],
)
def test_the_rule(rating, name):
    assert CLASSES[class_of(rating)] == name


def test_noise_is_one_raters_label(folder):
    data = Vader(folder).load()
    one, two, other = (scenarios.build(data, Column(), Human(), seed) for seed in (1, 1, 2))
    assert one.hash == two.hash != other.hash
    for index, label in zip(one.index.tolist(), one.labels.tolist(), strict=True):
        assert label in data.raters[int(data.train.number[index])]
    share = {0: 2 / 5, 1: 1 / 5, 2: 1 / 5}
    for site, samples in enumerate(one.sites):
        expected = sum(share[int(y)] for y in data.train.y[samples]) / len(samples)
        assert one.nominal[site] == pytest.approx(expected)
    drawn = [Truth.of(scenarios.build(data, Column(), Human(), s), data).overall for s in range(30)]
    assert sum(drawn) / 30 == pytest.approx(4 / 15, abs=0.02)  # 30 x 166 coins: three deviations


def test_every_rater_is_drawn(folder):
    """Of the negative sentences' raters one sees neutral and one positive, each as often."""
    data = Vader(folder).load()
    counts = torch.zeros(3)
    for seed in range(30):
        scenario = scenarios.build(data, Column(), Human(), seed)
        labels = scenario.labels[data.train.y[scenario.index] == 0]
        counts += torch.bincount(labels, minlength=3)
    assert (counts / counts.sum()).tolist() == pytest.approx([0.6, 0.2, 0.2], abs=0.04)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tweets_anonDataRatings.txt", "1\t0.5\t1\t[1, 9]", "the sentences of the other file"),
        ("tweets_GroundTruth.txt", "1\t0.5\n", "3 fields.*line 1"),
        ("tweets_GroundTruth.txt", "1\t0.5\ta\n1\t0.5\tb\n", "3 fields.*line 2"),
        ("tweets_GroundTruth.txt", b"\xff", "text in UTF-8"),
    ],
)
def test_damaged_files(folder, name, content, message):
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(raw)
    with pytest.raises(DataError, match=message):
        Vader(folder).load()


@pytest.mark.parametrize(
    ("mean", "ratings", "message"),
    [
        ("0.5", "[1, 9]", "whole ratings from -4 to 4"),
        ("0.5", "[]", "whole ratings"),
        ("0.5", "[1, true]", "whole ratings"),
        ("0.5", "{", "whole ratings"),
        ("half", "[1]", "a mean rating of sentence 1"),
        ("1.5", "[1]", "ratings of the sentences in the other file"),
    ],
)
def test_damaged_ratings(folder, mean, ratings, message):
    (folder / "tweets_GroundTruth.txt").write_text("1\t0.5\ta\n")
    (folder / "tweets_anonDataRatings.txt").write_text(f"1\t{mean}\t1\t{ratings}\n")
    with pytest.raises(DataError, match=message):
        Vader(folder).load()


def test_files_that_are_not_there(folder, monkeypatch):
    monkeypatch.delenv("FLR_DATA", raising=False)
    with pytest.raises(DataError, match="flr data get vader"):
        Vader().load()
    (folder / "nytEditorialSnippets_GroundTruth.txt").unlink()
    with pytest.raises(DataError, match=r"nytEditorialSnippets_GroundTruth\.txt; there is none"):
        Vader(folder).load()
