"""Spoiled files of Label Studio and spoiled corrections.csv on the page: refused in words, or fit.

Many are read in one visit. All of them: `pytest -m attack --tries 2000 -s`, with this file.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from mutations import as_json, raw, words
from tally import Tally

from tests.audit.test_page_files import STUDIO, STUDIO_CSV

SAMPLE = 200
AT_ONCE = 100

# Reads each text as the page does with a file; what fits is taken, painted and taken back.
READ = """
const known = ({ what, to }) => what in WORDS && (what !== "accept" || to in classes);
const fits = ([i, decision]) => i in suspects && known(decision);
return arguments[0].map((text) => {
  try {
    const found = readDecisions(text);
    if (!found.changes.every(fits)) return "a decision that is none";
    takenWords(found);
    takeOver(found);
    takeBack(false);
  } catch (error) {
    if (error.constructor !== Error) return `${error.constructor.name}: ${error.message}`;
  }
  return decisions.size || window.hacked ? "something stays behind" : "";
});
"""


def spoiled(number: int) -> str:
    """A file as one of the programs saves it, with something else in a place of it."""
    draw = random.Random(f"page {number}")  # noqa: S311
    kind = draw.choice(("JSON", "JSON", "JSON-MIN", "CSV"))
    if kind == "CSV":
        data = draw.choice((words, raw))(STUDIO_CSV.encode(), draw)
    else:
        data = json.dumps(STUDIO[kind]).encode()
        data = draw.choice((as_json, as_json, as_json, raw))(data, draw)
    return data.decode("utf-8", "replace")


def attack(show: Any, tries: int) -> None:
    page, tally = show(30), Tally("spoiled files on the page")
    for start in range(0, tries, AT_ONCE):
        texts = [spoiled(number) for number in range(start, min(start + AT_ONCE, tries))]
        for number, problem in enumerate(page.run(READ, texts), start):
            tally.lose(f"{number}: {problem}") if problem else tally.survived()
    tally.finish()


def test_a_sample_of_spoiled_files_is_refused_in_words(show: Any) -> None:
    attack(show, SAMPLE)


@pytest.mark.attack
def test_no_spoiled_file_is_taken(show: Any, tries: int) -> None:
    attack(show, tries)
