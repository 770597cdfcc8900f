"""Numbers of a running federation for Prometheus, on a port of this machine only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flr.core.errors import ConfigError
from flr.flower.watching import Line

HOST = "127.0.0.1"
BUCKETS = (1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600)  # seconds of a round


@dataclass
class Prometheus:
    """Serves http://127.0.0.1:PORT/metrics as long as the run goes on.

    Rounds, seconds and accuracy; for each site its replies by what became of them, late ones,
    bytes, seconds, and the norm of its last update.
    """

    port: int
    rounds: int
    late: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            from prometheus_client import (
                CollectorRegistry,
                Counter,
                Gauge,
                Histogram,
                start_http_server,
            )
        except ImportError as error:
            raise ConfigError(
                "Expected prometheus_client, which flower.metrics needs; it cannot be imported "
                f'({error}). Install it: pip install "flr[ops]"'
            ) from error
        to = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "flr", "registry": to}
        site = ["site"]
        self.round = Gauge("round", "The last round that is over", **own)
        Gauge("rounds", "Rounds of the run", **own).set(self.rounds)
        self.accuracy = Gauge("accuracy", "On the server's test set", **own)
        self.seconds = Histogram("round_seconds", "How long a round took", buckets=BUCKETS, **own)
        self.replies = Counter("replies", "Tasks of a site", [*site, "status"], **own)
        self.too_late = Counter("late_replies", "Answers after their round", site, **own)
        self.bytes = Counter("bytes", "Of arrays, from (up) and to sites", [*site, "way"], **own)
        self.site_seconds = Gauge("site_seconds", "Training, as the site says", site, **own)
        self.norm = Gauge("update_norm", "Length of a site's last update", site, **own)
        try:
            self._server, _ = start_http_server(self.port, HOST, to)
        except OSError as error:
            raise ConfigError(
                f"Expected port {self.port} of {HOST} to be free for flower.metrics; the system "
                f"says: {error}. Choose another port, or 0 for none."
            ) from error

    def round_end(self, number: int, measured: Line, clients: Sequence[Line]) -> None:
        """Takes in a round."""
        self.round.set(number)
        self.seconds.observe(measured["seconds"])
        if measured.get("accuracy") is not None:
            self.accuracy.set(measured["accuracy"])
        for line in clients:
            self._site(line["site"], line)

    def _site(self, site: str, line: Line) -> None:
        self.replies.labels(site, line["status"]).inc()
        for way in ("up", "down"):
            self.bytes.labels(site, way).inc(line[f"bytes_{way}"])
        if line["status"] == "ok":
            self.site_seconds.labels(site).set(line["seconds"])
        if "update_norm" in line:
            self.norm.labels(site).set(line["update_norm"])
        late = int(line.get("late", 0))
        self.too_late.labels(site).inc(max(late - self.late.get(site, 0), 0))
        self.late[site] = late

    def close(self) -> None:
        """Gives the port back."""
        server: Any = self._server
        server.shutdown()
        server.server_close()
