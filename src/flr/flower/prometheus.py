"""Numbers of a running federation for Prometheus, on a port of this machine only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
        with needing_prometheus("flower.metrics"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
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
        self._server = served(to, self.port, "flower.metrics")

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
        self._server.shutdown()
        self._server.server_close()


@dataclass
class AgentNumbers:
    """Serves http://127.0.0.1:PORT/metrics as long as a site's agent runs.

    What it was asked and what it answered, as counts, seconds and bytes: no names of runs, methods
    or arrays, because everybody on the machine can read it.
    """

    port: int

    def __post_init__(self) -> None:
        with needing_prometheus("--metrics"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        to = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "flr_agent", "registry": to}
        self.answers = Counter("answers", "By what became of them", ["status"], **own)
        self.bytes = Counter("bytes", "Of arrays, from (up) and to the site", ["way"], **own)
        self.seconds = Histogram("seconds", "Work on a message", buckets=BUCKETS, **own)
        self.working = Gauge("at_work", "1 while it works on a message", **own)
        self._server = served(to, self.port, "--metrics")

    def answered(self, refused: bool, seconds: float, up: int, down: int) -> None:
        """Takes in an answer."""
        self.answers.labels("refused" if refused else "ok").inc()
        self.seconds.observe(seconds)
        self.bytes.labels("up").inc(up)
        self.bytes.labels("down").inc(down)

    def close(self) -> None:
        """Gives the port back."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def needing_prometheus(option: str) -> Iterator[None]:
    """Its client is an extra; wraps its import."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"Expected prometheus_client, which {option} needs; it cannot be imported "
            f'({error}). Install it: pip install "flr[ops]"'
        ) from error


def served(registry: Any, port: int, option: str) -> Any:
    """The server of a registry's numbers, which has begun."""
    from prometheus_client import start_http_server

    try:
        return start_http_server(port, HOST, registry)[0]
    except OSError as error:
        raise ConfigError(
            f"Expected port {port} of {HOST} to be free for {option}; the system says: {error}. "
            "Choose another port, or 0 for none."
        ) from error
