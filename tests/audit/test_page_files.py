"""Decisions that come from elsewhere: an earlier audit, another program; and go there."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from flr.audit.pictures import no_picture
from tests.audit.pages import HOSTILE, Page

NAMES = [f"scan {i}.png" for i in range(30)]


def an_audit(show: Any, names: list[str], **more: Any) -> Page:
    """Of one and the same site; the suspects are others, in another order, with another key."""
    page: Page = show(len(names), names=names, whole=NAMES, site={"whole": NAMES}, **more)
    return page


def test_kept_labels_are_not_asked_again(show: Any, downloads: Path) -> None:
    page = an_audit(show, NAMES)
    page.keys(*"kkas")  # 0 and 1 kept, 2 accepted, 3 skipped
    # cat, dog, frog and horse take turns as labels: every fourth name has the same label again
    names = [NAMES[i] for i in (4, 1, 6, 7, 8, 0, 2, 3)]
    page = an_audit(show, names, fresh=False)
    assert page.current == "scan 4.png"
    words = page.text("#earlier-words")
    assert "2 decisions were taken over from an earlier audit of this data" in words
    assert "1 kept, 1 accepted" in words
    assert page.text("#card-1 .decided") == "Kept in an earlier audit: the label stays dog."
    page.keys("a")
    assert page.current == "scan 6.png", "the kept one is passed over"
    page.click("#earlier-show")
    assert page.names == ["scan 1.png", "scan 2.png"]
    page.click("#earlier-forget")
    assert not page.one("#earlier").is_displayed()
    page.click("#undo")
    assert page.one("#earlier").is_displayed()
    rows = page.saved(downloads)[1:]
    assert [row[0] for row in rows] == ["scan 4.png", "scan 1.png", "scan 2.png"]
    assert {row[4] for row in rows} == {page.audit.key}, "flr relabel takes one audit"


def test_a_label_that_a_person_chose_is_not_asked_again(show: Any) -> None:
    page = an_audit(show, NAMES)
    page.keys("a")  # scan 0: cat becomes dog
    page = an_audit(show, ["scan 9.png", "scan 0.png"], fresh=False)  # and is a dog now
    assert page.audit.suspects[1].given == "dog"
    assert page.text("#card-1 .decided") == "Kept in an earlier audit: the label stays dog."


def test_other_data_of_the_same_names_take_nothing_over(show: Any) -> None:
    page = an_audit(show, NAMES)
    page.keys(*"kkk")
    other = {"pictures": no_picture, "words": lambda row: f"another row {row}", "whole": NAMES}
    page = show(30, names=NAMES, whole=NAMES, site=other, fresh=False)
    assert page.progress == "0 accepted, 0 kept, 0 skipped"


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["name", "given", "decision", "label", "audit"], *rows])
    return path


def test_a_file_of_an_earlier_audit_is_taken_over(show: Any, tmp_path: Path) -> None:
    page = show(30)
    old = [
        ["scan 0.png", "cat", "keep", "", "old"],
        ["scan 1.png", "dog", "accept", "frog", "old"],
        ["scan 2.png", "cat", "keep", "", "old"],  # is a frog now
        ["scan 3.png", "cat", "accept", "horse", "old"],  # was corrected since
        ["scan 4.png", "cat", "skip", "", "old"],
        ["scan 5.png", "dog", "accept", "yak", "old"],
        ["scan 99.png", "dog", "keep", "", "old"],
    ]
    page.load(write(tmp_path / "old.csv", old), "3 decisions of another audit or program")
    said = page.text("#loaded")
    assert "taken over, by name and label: 1 accepted, 2 kept, 0 skipped." in said
    left = (
        "1 of samples that are no suspects here, 1 whose label is another one now, "
        "1 with a class that this audit does not have, 1 that were skipped"
    )
    assert f"Not taken: {left}." in said
    assert page.text("#card-3 .decided") == "Kept in an earlier audit: the label stays horse."
    page.click("#undo")
    assert page.progress == "0 accepted, 0 kept, 0 skipped"
    page.load(write(tmp_path / "none.csv", old[-1:]), "does not fit. Nothing in it can be used")


def decided_page(show: Any, **site: Any) -> Page:
    page: Page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE, **site)
    page.keys("a", "k", "s", "c", *"plain", "\ue007")
    return page


def test_label_studio_json(show: Any, downloads: Path, tmp_path: Path) -> None:
    page = decided_page(show)
    rows = page.saved(downloads)
    file = page.download(downloads / "label-studio.json", "[data-save=json]")
    tasks = json.loads(file.read_text(encoding="utf-8"))
    assert [task["data"]["name"] for task in tasks] == list(HOSTILE)
    first, one = tasks[0], page.audit.suspects[0]
    assert first["data"]["image"] == "/data/local-files/?d=plain"
    chosen = {"from_name": "choice", "to_name": "image", "type": "choices"}
    assert first["annotations"][0]["result"] == [chosen | {"value": {"choices": [one.suggested]}}]
    assert first["predictions"][0]["score"] == pytest.approx(one.confidence, abs=1e-4)
    assert tasks[1]["annotations"][0]["result"][0]["value"]["choices"] == [HOSTILE[1]], "kept"
    assert tasks[2]["annotations"] == [{"was_cancelled": True, "result": []}], "skipped"
    assert tasks[4]["annotations"] == []
    file = file.rename(tmp_path / "label-studio.json")
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE)
    page.load(file, "4 decisions loaded")
    assert page.saved(downloads) == rows


def test_label_studio_csv(show: Any, downloads: Path, tmp_path: Path) -> None:
    page = decided_page(show)
    rows = page.saved(downloads)
    file = page.download(downloads / "label-studio.csv", "[data-save=csv]")
    with file.open(encoding="utf-8", newline="") as text:
        table = list(csv.DictReader(text))
    assert [row["was_cancelled"] for row in table[:4]] == ["false", "false", "true", "false"]
    assert table[4]["name"] == "'" + HOSTILE[4], "no spreadsheet works it out"
    file = file.rename(tmp_path / "label-studio.csv")
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE)
    page.load(file, "4 decisions loaded")
    assert page.saved(downloads) == rows


STUDIO = {
    "JSON": [
        {
            "id": 7,
            "data": {"image": "/data/upload/3/0f9a2b1c-scan 0.png"},
            "annotations": [
                {"was_cancelled": True, "result": []},
                {"result": [{"type": "choices", "value": {"choices": ["horse"]}}]},
            ],
        },
        {"data": {"image": "/data/local-files/?d=ward/scan%201.png"}, "annotations": []},
        {
            "data": {"image": "s3://bucket/ward/scan 2.png"},
            "annotations": [{"result": [{"type": "choices", "value": {"choices": ["frog"]}}]}],
        },
    ],
    "JSON-MIN": [
        {"image": "/data/upload/3/0f9a2b1c-scan 0.png", "id": 7, "choice": "horse"},
        {"image": "scan 2.png", "id": 8, "choice": {"choices": ["frog"]}},
    ],
}
STUDIO_CSV = """annotation_id,annotator,choice,created_at,id,image,lead_time,updated_at
9,"a@b.c","horse","2026-01-01",7,"/data/upload/3/0f9a2b1c-scan 0.png",10.7,"2026-01-01"
10,"a@b.c","frog","2026-01-01",8,"/data/local-files/?d=ward/scan%202.png",1.2,"2026-01-01"
"""


@pytest.mark.parametrize("kind", ["JSON", "JSON-MIN", "CSV"])
def test_exports_of_label_studio_are_read(show: Any, tmp_path: Path, kind: str) -> None:
    page = show(30)
    file = tmp_path / f"export.{kind[:4].lower().strip('-')}"
    file.write_text(STUDIO_CSV if kind == "CSV" else json.dumps(STUDIO[kind]), encoding="utf-8")
    page.load(file, "2 decisions of another audit or program taken over")
    assert page.text("#card-0 .decided").endswith("the label becomes horse.")
    assert page.text("#card-2 .decided").endswith("the label stays frog.")
    assert page.progress == "1 accepted, 1 kept, 0 skipped"


def test_texts_and_tables_for_label_studio(show: Any, downloads: Path) -> None:
    table = {"pictures": no_picture, "words": lambda row: [("age", str(row)), ("=x", "1")]}
    page = show(site=table | {"kind": "table"})
    page.keys("a")
    file = page.download(downloads / "label-studio.json", "[data-save=json]")
    first = json.loads(file.read_text(encoding="utf-8"))[0]
    assert first["data"]["table"] == {"age": "0", "=x": "1"}
    assert first["annotations"][0]["result"][0]["to_name"] == "table"
    page = show(site={"pictures": no_picture, "words": lambda row: f"text {row}", "kind": "text"})
    file = page.download(downloads / "label-studio.json", "[data-save=json]")
    assert json.loads(file.read_text(encoding="utf-8"))[3]["data"]["text"] == "text 3"


def test_json_of_another_kind_is_refused(show: Any, tmp_path: Path) -> None:
    page = show()
    for name, text in (("broken.json", "[1, "), ("numbers.json", "[1, 2]")):
        (tmp_path / name).write_text(text)
        page.load(tmp_path / name, "does not fit. Expected a")
    assert page.progress == "0 accepted, 0 kept, 0 skipped"
