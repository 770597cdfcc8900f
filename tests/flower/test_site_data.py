"""A site whose data have changed: noticed at the next task, its tables never mixed up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import DirectGrid, run_config
from flwr.app import Message
from toys import settings

from flr.flower import site_data
from flr.flower.server import serve
from flr.flower.site_config import SiteConfig
from flr.simulation.api import Run

SITES, EACH, ROUNDS = 3, 20, 4
OWN = {"classes": "a, b", "mean": "0", "std": "1", "min-sites": SITES, "wait": 0.5}
TRAIN = {"participation": 1.0, "model": "mlp"}


def write(path: Path, order: np.ndarray[Any, Any] | None = None, times: int | None = None) -> None:
    draw = np.random.default_rng(int(path.stem[-1]))
    x, y = draw.normal(size=(EACH, 6)).astype("float32"), draw.integers(0, 2, EACH)
    rows = np.arange(EACH) if order is None else order
    np.savez(path, x=x[rows], y=y[rows])
    if times is not None:
        os.utime(path, ns=(times, times))


def backwards(path: Path) -> None:
    """The same size and the same time, as a copy with `cp -p` would have."""
    write(path, np.arange(EACH)[::-1], path.stat().st_mtime_ns)


class ChangesAtRoundThree(DirectGrid):
    """Something happens at the sites before the third round's tasks."""

    def __init__(self, nodes: Any, act: Callable[[], None]) -> None:
        super().__init__(nodes)
        self.act, self.steps = act, 0

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        if held and held[0].metadata.message_type == "train":
            self.steps += 1
            if self.steps == 3:
                self.act()
        return super().push_messages(held)


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    for number in range(SITES):
        write(tmp_path / f"ward-{number}.npz")
    return tmp_path / "ward-1.npz"


def train(tmp_path: Path, act: Callable[[], None], **own: Any) -> Run:
    nodes: dict[int, dict[str, Any]] = {
        k: {
            "site": f"ward-{k}",
            "data": str(tmp_path / f"ward-{k}.npz"),
            "state-dir": str(tmp_path),
        }
        for k in range(SITES)
    }
    nodes[1] |= own
    config = settings("flr", rounds=ROUNDS, train=TRAIN)
    serve(ChangesAtRoundThree(nodes, act), run_config(config, tmp_path / "run", **OWN))
    return Run(tmp_path / "run")


def test_rows_in_another_order_are_refused_with_what_to_do(ward: Path, tmp_path: Path) -> None:
    run = train(tmp_path, lambda: backwards(ward))
    refused = {(c["site"], c["round"]): c["reason"] for c in run.clients if c["status"] != "ok"}
    assert list(refused) == [("ward-1", 3), ("ward-1", 4)]
    assert "another order" in refused["ward-1", 3]
    assert "accept-new-data=true" in refused["ward-1", 3]


def test_data_that_are_brought_back_are_taken(ward: Path, tmp_path: Path) -> None:
    run = train(tmp_path, lambda: (ward.unlink(), write(ward)))  # other times, the same samples
    assert {c["status"] for c in run.clients} == {"ok"}


def test_a_site_that_accepts_new_data_begins_its_tables_anew(
    ward: Path, tmp_path: Path, caplog
) -> None:
    seen: list[tuple[int | None, int | None]] = []  # the version asked for, the one it starts from
    real = site_data.version_for

    def spy(own: SiteConfig, spec: Any, step: int, version: int | None, folder: Path) -> int | None:
        found = real(own, spec, step, version, folder)
        if own.site == "ward-1":
            seen.append((version, found))
        return found

    site_data.version_for = spy
    try:
        run = train(tmp_path, lambda: backwards(ward), **{"accept-new-data": True})
    finally:
        site_data.version_for = real
    assert {c["status"] for c in run.clients} == {"ok"}
    assert seen[2:] == [(1, None), (2, 2)]
    assert "its data are new" in caplog.text


def test_a_record_says_which_run_a_state_belongs_to(ward: Path, tmp_path: Path, cli) -> None:
    train(tmp_path, lambda: None)
    (folder,) = tmp_path.glob("*/ward-1")
    record = site_data.read(folder)
    assert record is not None
    assert (record.run, record.site, record.rounds) == (folder.parent.name, "ward-1", ROUNDS)
    shown = cli("site", "states", tmp_path)
    assert shown.code == 0
    assert shown.out.count(folder.parent.name) == SITES
    assert max(map(len, shown.out.splitlines())) <= 80
    (folder / site_data.RECORD).write_text("{}")
    assert site_data.read(folder) is None
    assert "damaged" in cli("site", "states", tmp_path).out
    assert cli("site", "states", tmp_path / "ward-1").code != 0


def test_the_order_of_names_decides_for_a_folder_and_hidden_files_do_not(tmp_path: Path) -> None:
    def folder(**content: bytes) -> str:
        for name in ("cat", "dog"):
            (tmp_path / name).mkdir(exist_ok=True)
        for name, data in content.items():
            (tmp_path / name.replace("_", "/")).write_bytes(data)
        return site_data.digest(SiteConfig(site="a", data=tmp_path, **{"state-dir": tmp_path}))

    first = folder(cat_1=b"1", cat_2=b"2", dog_3=b"3")
    assert folder(**{"cat_.DS": b"x"}) == first
    assert folder(cat_1=b"2", cat_2=b"1") != first
    assert folder(cat_1=b"1", cat_2=b"2") == first
