"""What is seen of a running federation: a page that writes itself, and numbers for Prometheus."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from direct import DirectGrid, run_config
from flwr.app import Message
from prometheus_client.parser import text_string_to_metric_families
from toys import TINY, settings

from flr.core.errors import ConfigError
from flr.flower import live_page
from flr.flower import node as nodes
from flr.flower.prometheus import Prometheus
from flr.flower.server import serve
from flr.flower.site_config import RefusalError
from flr.simulation.api import Run

SITES, ROUNDS = TINY["partition"]["clients"], TINY["rounds"]
EVERYONE = {"participation": 1.0}


class Looks(DirectGrid):
    """Somebody looks before every task."""

    def __init__(self, nodes: Any, look: Callable[[], None]) -> None:
        super().__init__(nodes)
        self.look = look

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        if held and held[0].metadata.message_type == "train":
            self.look()
        return super().push_messages(held)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def values(text: str) -> dict[tuple[str, str, str], float]:
    """By name, site, and status or way."""
    return {
        (s.name, s.labels.get("site", ""), s.labels.get("status", s.labels.get("way", ""))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def refusing(real: Any) -> Any:
    def execute(own: Any, *args: Any) -> Any:
        if own.site == "site-1":
            raise RefusalError("<script>alert(1)</script>")
        return real(own, *args)

    return execute


def test_a_running_federation_can_be_watched(port: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(nodes, "execute", refusing(nodes.execute))
    pages, scraped = [], []
    out = tmp_path / "run"

    def look() -> None:
        pages.append((out / live_page.NAME).read_text())
        scraped.append(values(httpx.get(f"http://127.0.0.1:{port}/metrics").text))

    ids = {k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)}
    config = settings("fedavg", train=EVERYONE)
    serve(Looks(ids, look), run_config(config, out, metrics=port))
    run, last = Run(out), scraped[-1]
    assert [found["flr_round", "", ""] for found in scraped] == list(range(ROUNDS))
    assert last["flr_rounds", "", ""] == ROUNDS
    assert last["flr_replies_total", "site-0", "ok"] == ROUNDS - 1
    assert last["flr_replies_total", "site-1", "refused"] == ROUNDS - 1
    assert last["flr_accuracy", "", ""] == run.metrics[-2]["accuracy"]
    sent = [line for line in run.clients if line["site"] == "site-0"][: ROUNDS - 1]
    assert last["flr_bytes_total", "site-0", "up"] == sum(line["bytes_up"] for line in sent)
    assert last["flr_update_norm", "site-0", ""] == sent[-1]["update_norm"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics")

    assert [f"Round {n} of {ROUNDS}" in page for n, page in enumerate(pages)] == [True] * ROUNDS
    assert all('http-equiv="refresh"' in page for page in pages)
    final = (out / live_page.NAME).read_text()
    assert "refresh" not in final
    assert "the run is over" in final
    assert "&lt;script&gt;alert(1)" in final
    assert "<script>" not in final
    assert "http://" not in final


def test_a_page_of_a_resumed_run_has_all_its_rounds(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ids = {k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(SITES)}

    def crash() -> None:
        if (out / "metrics.jsonl").exists() and len(Run(out).metrics) == 2:
            raise ConnectionError("the SuperLink is gone")

    with pytest.raises(ConnectionError):
        serve(Looks(ids, crash), run_config(settings("fedavg", train=EVERYONE), out))
    serve(DirectGrid(ids), {"flower.out": str(out), "flower.resume": True})
    page = (out / live_page.NAME).read_text()
    assert f"Round {ROUNDS} of {ROUNDS}" in page
    assert f"<td>site-0</td><td>ok</td><td>{ROUNDS}</td>" in page


def test_a_port_that_is_taken_is_an_error_that_says_so(port: int) -> None:
    first = Prometheus(port, 1)
    try:
        with pytest.raises(ConfigError, match="Choose another port"):
            Prometheus(port, 1)
    finally:
        first.close()


def test_a_curve_goes_up_as_numbers_do() -> None:
    assert live_page.curve([0.0, 0.5, 1.0]) == "0.0,120.0 300.0,60.0 600.0,0.0"
    assert live_page.curve([]) == ""
