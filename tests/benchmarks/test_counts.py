"""What a round costs, counted instead of timed: a step back in the design fails here.

Each number is what one more round adds; all clients take part in every round.
"""

from __future__ import annotations

import copy
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import flr
from benchmarks.counting import as_counted, counted
from flr.client import fit
from flr.client.state import StateFiles
from flr.core.arrays import nbytes
from flr.data.dataset import SiteTable
from flr.models import networks

CLIENTS, SAMPLES, EPOCHS, BATCH = 3, 20, 2, 10
STEPS = CLIENTS * EPOCHS * SAMPLES // BATCH
MLP = {"name": "mlp", "hidden": 64}
FLR = {"name": "flr", "warmup": "schedule"}  # its term in every round
WRITES = os.O_WRONLY | os.O_RDWR

_opened: list[Callable[[str, bool], None]] = []  # an audit hook cannot be taken out again


def _audit(event: str, args: tuple) -> None:
    if event == "open" and _opened and isinstance(args[0], str):
        _opened[-1](args[0], bool(args[2] & WRITES))


sys.addaudithook(_audit)


@pytest.fixture
def tally(monkeypatch, tmp_path) -> Iterator[Counter]:
    """Counts, in this process, what is made, copied, read and written."""
    found: Counter[str] = Counter()

    def count(owner: object, name: str, key: str, size: Callable[..., int] = lambda *_: 1) -> None:
        real = getattr(owner, name)

        def counting(*args, **options):
            found[key] += size(*args)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counting)

    count(fit, "make", "optimizers")
    count(copy, "deepcopy", "deep copies")
    count(SiteTable, "__getitem__", "sites gathered")
    count(StateFiles, "read", "states read", lambda _, __, version: version is not None)
    count(StateFiles, "write", "states written")
    count(Connection, "_send_bytes", "messages")
    count(Connection, "_send_bytes", "bytes", lambda _, data: len(data))
    real = Connection._recv_bytes

    def receive(self, *args):
        data = real(self, *args)
        found["messages"] += 1
        found["bytes"] += data.getbuffer().nbytes
        return data

    monkeypatch.setattr(Connection, "_recv_bytes", receive)

    def opened(path: str, writes: bool) -> None:
        if path.startswith(str(tmp_path)) and not path.endswith("counts"):
            found["files written" if writes else "files read"] += 1

    _opened.append(opened)
    yield found
    _opened.pop()


@pytest.fixture
def data(tmp_path) -> Path:
    rng = np.random.default_rng(1)
    n = CLIENTS * SAMPLES
    x, y = rng.standard_normal((n, 8), dtype=np.float32), np.arange(n) % 2
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path / "data.npz"


def a_round_of(method: str | dict[str, str], workers: int, data: Path, tally: Counter) -> Counter:
    """What two rounds more have added, halved: start and end of a run drop out."""
    seen = []
    for rounds in (3, 5):
        tally.clear()
        counts = data.parent / f"{rounds}-counts"
        flr.run(
            {
                "rounds": rounds,
                "workers": workers,
                "method": method,
                "checkpoint_every": 100,
                "data": {"name": "npz", "path": str(data)},
                "partition": {"kind": "iid", "clients": CLIENTS},
                "train": {
                    "model": as_counted(MLP, counts),
                    "participation": 1.0,
                    "epochs": EPOCHS,
                    "batch": BATCH,
                },
                "eval": {"every": 0, "memorization_every": 0},
            },
            out=data.parent / f"run-{rounds}",
        )
        seen.append(Counter(tally) + Counter(counted(counts)))
    short, long = seen
    more = {key: long[key] - short[key] for key in long if long[key] != short[key]}
    assert all(value % 2 == 0 for key, value in more.items() if key != "bytes"), more
    return Counter({key: value // 2 for key, value in more.items()})


TRAINING = {"forward": STEPS, "backward": STEPS}
RECORDS = {"files written": 2}  # a line for the round, lines for its clients
ALONE = TRAINING | {"optimizers": CLIENTS, "sites gathered": CLIENTS}


def test_fedavg_in_one_process(data, tally):
    assert a_round_of("fedavg", 1, data, tally) == ALONE | RECORDS


def test_flr_in_one_process(data, tally):
    """One look of the global model at each batch; each state read once and written once."""
    expected = ALONE | {"no_grad": STEPS, "deep copies": CLIENTS}
    expected |= {"states read": CLIENTS, "states written": CLIENTS}
    expected |= {"files written": RECORDS["files written"] + CLIENTS}
    assert a_round_of(FLR, 1, data, tally) == expected


@pytest.mark.parametrize("method", ["fedavg", FLR], ids=["fedavg", "flr"])
def test_two_workers(method, data, tally):
    """Nothing is built or read again, and no more is sent than the weights, once each way."""
    found = a_round_of(method, 2, data, tally)
    sent = found.pop("bytes")
    looks = {"no_grad": STEPS} if method == FLR else {}
    expected = TRAINING | RECORDS | looks | {"messages": 2 * CLIENTS}
    assert found == expected
    model = networks.build(
        lambda shape, classes: networks.mlp(shape, classes, hidden=64), (8,), 2, 1, 1
    )
    assert sent < (2 + CLIENTS) * (nbytes(model.state_dict()) + 2000)
