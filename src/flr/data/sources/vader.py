"""VADER's four corpora: sentences whose sentiment many people rated, each on its own.

Every corpus comes as two files, texts with mean ratings and the single ratings, line by line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from flr.core.registry import register
from flr.data import paths
from flr.data.build import normalization_of
from flr.data.dataset import Dataset, LabeledData, Ragged
from flr.data.texts import Texts
from flr.data.train_test_split import stratified

CORPORA = {
    "tweets": "tweets",
    "film": "movieReviewSnippets",
    "product": "amazonReviewSnippets",
    "newspaper": "nytEditorialSnippets",
}
CLASSES = ("negative", "neutral", "positive")
_NEUTRAL = 0.5  # a mean rating nearer to 0 than this rounds to 0
_SAME_MEAN = 1e-6  # the files differ in how many digits they write


@dataclass(frozen=True)
class Rated:
    """One sentence, the mean of its ratings, and each of them (-4 to 4)."""

    text: str
    mean: float
    ratings: list[int]


@register(
    "vader",
    kind="dataset",
    title="VADER's rated sentences",
    paper="Hutto and Gilbert, ICWSM 2014",
    year=2014,
)
@dataclass(frozen=True)
class Vader:
    """23,504 English sentences with the sentiment that 15 to 99 people saw in each.

    The class is the sign of the mean rating, "neutral" if it is nearer to 0 than 0.5. A single
    rating is a whole number, so by the same rule each rater chose a class, too: leaving neutral
    sentences out would leave no class for raters who saw nothing in a sentence, the commonest way
    to disagree. [noise] kind = "human" gives every sentence the class of one of its raters;
    [partition] kind = "column" has the four corpora as sites: tweets, film and product reviews,
    newspaper editorials. A fifth of each class at each site is the test set. 199 tweets are left
    out: their ratings belong to other tweets, as the means tell.
    """

    path: Path | None = None
    target: Literal["sentiment", "corpus"] = "sentiment"  # or where a sentence is from

    def load(self) -> Dataset:
        """Classes by mean rating; every rater's class is kept for noise."""
        folder = paths.find(self.path, ["vader"], "vader")
        corpora = [read_corpus(folder, stem) for stem in CORPORA.values()]
        found = [rated for corpus in corpora for rated in corpus]
        source = torch.arange(len(corpora)).repeat_interleave(torch.tensor([*map(len, corpora)]))
        texts = Texts.of([rated.text for rated in found])
        if self.target == "corpus":
            return _dataset(LabeledData(texts, source, torch.arange(len(source))), tuple(CORPORA))
        y = torch.tensor([class_of(rated.mean) for rated in found])
        data = LabeledData(texts, y, torch.arange(len(y)), source)
        raters = Ragged.of([torch.tensor([*map(class_of, r.ratings)]) for r in found])
        return replace(_dataset(data, CLASSES), site_names=tuple(CORPORA), raters=raters)


def _dataset(data: LabeledData, classes: tuple[str, ...]) -> Dataset:
    """A fifth of each class, and of each at every site, is for testing."""
    strata = data.y if data.site is None else data.site * len(classes) + data.y
    train, test = (data[torch.from_numpy(part)] for part in stratified(strata.numpy()))
    return Dataset("vader", train, test, classes, normalization_of(data.x))


def class_of(rating: float) -> int:
    """Of a mean rating or of a single one."""
    return 1 if abs(rating) < _NEUTRAL else 0 if rating < 0 else 2


def read_corpus(folder: Path, stem: str) -> list[Rated]:
    """The sentences of one corpus whose ratings are in the other file under the same number."""
    texts = _lines(folder / f"{stem}_GroundTruth.txt", 3)
    ratings_file = folder / f"{stem}_anonDataRatings.txt"
    ratings = _lines(ratings_file, 4)
    if texts.keys() != ratings.keys():
        raise paths.damaged(ratings_file, "the sentences of the other file", "others")
    found = []
    for key, (mean, text) in texts.items():
        own_mean, _, single = ratings[key]
        if (
            abs(_number(ratings_file, key, mean) - _number(ratings_file, key, own_mean))
            < _SAME_MEAN
        ):
            found.append(Rated(text, float(mean), _ratings(ratings_file, key, single)))
    if not found:
        raise paths.damaged(ratings_file, "ratings of the sentences in the other file", "others")
    return found


def _lines(file: Path, fields: int) -> dict[str, list[str]]:
    """The fields of every line by its first one."""
    paths.require_file(file, "a file of VADER's corpora")
    try:
        content = file.read_bytes().decode("utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise paths.damaged(file, "text in UTF-8", str(error)) from error
    found: dict[str, list[str]] = {}
    for number, line in enumerate(content.replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip():
            continue
        key, *rest = line.split("\t")
        if len(rest) != fields - 1 or key in found or not rest[-1].strip():
            got = f"something else on line {number}"
            raise paths.damaged(file, f"{fields} fields and a number of its own on a line", got)
        found[key] = rest
    return found


def _number(file: Path, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise paths.damaged(file, f"a mean rating of sentence {key}", f'"{text[:40]}"') from None


def _ratings(file: Path, key: str, text: str) -> list[int]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    allowed = set(range(-4, 5))
    whole = isinstance(found, list) and all(type(one) is int and one in allowed for one in found)
    if not whole or not found:
        expected = f"whole ratings from -4 to 4 of sentence {key}"
        raise paths.damaged(file, expected, f'"{text[:40]}"')
    return list(found)
