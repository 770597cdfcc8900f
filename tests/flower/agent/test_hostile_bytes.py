"""Whatever is written to an agent's socket, it goes on, and says nothing that it should not."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents import HELLO, Agent, agents, ask
from flwr.app import Array

from flr.flower import ledger
from flr.flower.agent import frames, site_agent
from flr.flower.agent.frames import MAGIC

START = struct.Struct("!4sI")
NOTE = {"schema": 1, "json": json.dumps(HELLO)}
ORDER = {"task": "fit", "client": 0, "step": 0, "round": 0, "rounds": 1, "version": None}
TASK = {**NOTE, "json": json.dumps({**HELLO, "order": {**ORDER, "keep": [], "attempt": 1}})}


def framed(header: Any, parts: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return START.pack(MAGIC, len(text) if length is None else length) + text + parts


def array(data: bytes, **changes: Any) -> dict[str, Any]:
    own = {"name": "model.0.1.weight", "dtype": "float32", "shape": [2], "stype": "numpy.ndarray"}
    return {**own, "bytes": len(data), **changes}


def with_array(data: bytes, **changes: Any) -> bytes:
    return framed({"type": "train", "note": TASK, "arrays": [array(data, **changes)]}, data)


def npy(shape: str, dtype: str = "<f4", body: bytes = b"") -> bytes:
    """An array file whose header says what it likes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


GOOD = Array(np.zeros(2, np.float32)).data
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "half a start": MAGIC,
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "a length of gigabytes": START.pack(MAGIC, 2**32 - 1),
    "a length that does not come": framed({"type": "query.hello"}, length=1000),
    "too short a length": framed({"type": "query.hello", "note": NOTE}, length=5),
    "no JSON": framed(b"\xff\xfe\x00"),
    "deep JSON": framed(b"[" * 100_000),
    "deep JSON in a key": framed(b'{"note":' * 50_000),
    "no object": framed([1]),
    "an unknown type": framed({"type": "train.everything", "note": NOTE, "arrays": None}),
    "an unknown key": framed({"type": "query.hello", "note": NOTE, "path": "/etc/passwd"}),
    "a note of objects": framed({"type": "query.hello", "note": {"json": {"a": 1}}}),
    "deep JSON in the note": framed({"type": "query.hello", "note": {**NOTE, "json": "[" * 9000}}),
    "a note of numbers": framed({"type": "query.hello", "note": {**NOTE, "json": "1" * 9000}}),
    "another version": framed({"type": "query.hello", "note": {**NOTE, "schema": 9}}),
    "no note": framed({"type": "train", "note": {}, "arrays": None}),
    "endless numbers": framed({"type": "query.hello", "note": {"schema": 10**400, "json": ""}}),
    "more arrays than there are": framed(
        {"type": "train", "note": TASK, "arrays": [array(GOOD)] * 200_000}
    ),
    "more bytes than it takes": with_array(GOOD, bytes=10**12),
    "fewer than none": with_array(GOOD, bytes=-1),
    "bytes that do not come": with_array(GOOD, bytes=len(GOOD) + 9),
    "a shape of words": with_array(GOOD, shape=["samples"]),
    "another kind of bytes": with_array(GOOD, stype="pickle"),
    "a name of nothing": with_array(GOOD, name=""),
    "an array of a million million": with_array(npy("(1000000000000,)")),
    "objects": with_array(npy("(1,)", "|O", b"cos\nsystem\n(S'true'\ntR.")),
    "a header of code": with_array(npy("__import__('os')")),
    "an archive": with_array(b"PK\x03\x04" + bytes(100)),
    "a task without weights": framed({"type": "train", "note": TASK, "arrays": []}),
    "a private task without a norm": framed(
        {"type": "train.private", "note": TASK, "arrays": [array(GOOD)]}, GOOD
    ),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    state = tmp_path_factory.mktemp("state")
    own = {"partition-id": 0, "state-dir": str(state)}
    with pytest.MonkeyPatch.context() as patch, agents({0: own}) as made:
        patch.setattr(site_agent, "READ", 0.5)
        yield made[0]


def sent(agent: Agent, data: bytes) -> dict[str, Any] | None:
    """What the agent says to some bytes before it hangs up; None for nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(agent.path))
        with suppress(OSError):  # it may not want to hear all of it
            connection.sendall(data)
        try:
            answer = json.loads(frames.receive_header(connection))
        except (frames.FrameError, OSError):
            return None
    assert isinstance(answer, dict)
    return answer


def harmless(answer: dict[str, Any] | None) -> bool:
    """Nothing, a refusal, or a note that says why not."""
    if answer is None or answer.keys() <= {"refused", "error"}:
        return True
    said = json.loads(answer["note"]["json"])
    return answer["arrays"] is None and said.keys() <= {"site", "problem"}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_agent_goes_on(name, agent):
    answer = sent(agent, HOSTILE[name])
    assert harmless(answer), answer
    assert str(agent.state_dir) not in str(answer)
    assert ask(agent.path)["site"] == "site-0"


def test_no_flipped_byte_ends_it(agent):
    whole = framed({"type": "query.hello", "note": NOTE, "arrays": None})
    draw = random.Random(1)  # noqa: S311
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(agent.path))
            connection.sendall(data[: draw.randint(1, len(data))])
    assert ask(agent.path)["site"] == "site-0"
    assert not ledger.read(agent.state_dir).problems


def test_who_says_nothing_keeps_nobody_waiting_for_long(agent):
    idle = [socket.socket(socket.AF_UNIX) for _ in range(site_agent.CONNECTIONS)]
    for connection in idle:
        connection.connect(str(agent.path))
    assert ask(agent.path)["site"] == "site-0"  # asks again until there is room
    for connection in idle:
        connection.close()


def test_who_announces_much_and_sends_little_takes_no_memory(agent):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(agent.path))
        connection.sendall(with_array(GOOD, bytes=agent.most))
        assert ask(agent.path)["site"] == "site-0"
        assert sent(agent, with_array(GOOD)) in ({"busy": True}, None)


def test_a_socket_that_is_a_file_is_left_alone(tmp_path: Path):
    from flr.core.errors import ConfigError

    place = tmp_path / "s"
    place.write_text("mine")
    serving = site_agent.SiteAgent({"partition-id": 0, "state-dir": str(tmp_path / "t")}, place)
    with pytest.raises(ConfigError, match="there is a file"):
        serving.serve()
    assert place.read_text() == "mine"
