"""Rounds without waiting: a waiting room at the server, and a launcher at each SuperNode."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import hello_app
import httpx
import psutil
import pytest
import uvicorn
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from starlette.applications import Starlette
from starlette.testclient import TestClient

from flr.core.errors import ConfigError
from flr.flower.local.loopback import Loopback
from flr.flower.quick import waiting_room as rooms
from flr.flower.quick.processes import LAUNCHER, runtime_address
from flr.flower.quick.waiting_room import waiting_room

PULL = "/v1/fleet/pull-messages"


class SuperLink:
    """Answers with what it is given, in this order, and the last one for ever."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers, self.asked = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx.Response(found.status_code, content=found.content, headers=found.headers)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://superlink")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "PAUSE", 0.01)


def test_a_question_waits_for_its_answer() -> None:
    kind = {"content-type": "application/protobuf"}
    link = SuperLink(httpx.Response(200), httpx.Response(200), httpx.Response(200, content=b"task"))
    link.answers[-1].headers.update(kind)
    signed = {**kind, "flwr-signature": "abc"}
    found = TestClient(waiting_room(link.client())).post(PULL, content=b"node", headers=signed)
    assert (found.status_code, found.content) == (200, b"task")
    assert found.headers["content-type"] == "application/protobuf"
    assert [asked.content for asked in link.asked] == [b"node"] * 3
    assert {asked.headers["flwr-signature"] for asked in link.asked} == {"abc"}
    assert {asked.url for asked in link.asked} == {httpx.URL(f"http://superlink{PULL}")}


def test_it_comes_back_without_one_before_the_supernode_gives_up() -> None:
    link = SuperLink(httpx.Response(200))
    found = TestClient(waiting_room(link.client(), hold=0.1)).post(PULL)
    assert (found.status_code, found.content) == (200, b"")
    assert len(link.asked) > 1
    assert rooms.HOLD < 30  # flwr.supercore.protobuf.client.ProtobufClient's timeout


@pytest.mark.parametrize("call", ["push-messages", "confirm-message-received", "pull-object"])
def test_other_calls_do_not_wait(call: str) -> None:
    link = SuperLink(httpx.Response(200))
    assert TestClient(waiting_room(link.client())).post(f"/v1/fleet/{call}").content == b""
    assert len(link.asked) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 502])
def test_a_refusal_does_not_wait(status: int) -> None:
    link = SuperLink(httpx.Response(status))
    assert TestClient(waiting_room(link.client())).post(PULL).status_code == status
    assert len(link.asked) == 1


@pytest.mark.parametrize("path", ["/v1/control/list-runs", "/v1/runtime/get-nodes", "/", "/docs"])
def test_nothing_but_the_fleet_api_passes(path: str) -> None:
    link = SuperLink(httpx.Response(200))
    room = TestClient(waiting_room(link.client()))
    assert room.post(path).status_code in (404, 405)
    assert room.post(f"/v1/fleet/..{path}").status_code in (404, 405)
    assert room.post(f"/v1/fleet/%2e%2e%2f..{path}").status_code in (404, 405)
    assert room.get(PULL).status_code == 405
    assert link.asked == []


def test_without_a_superlink_flower_is_told_to_try_again() -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody", request=request)

    client = httpx.AsyncClient(transport=httpx.MockTransport(gone), base_url="http://superlink")
    assert TestClient(waiting_room(client)).post(PULL).status_code == 502


def wait_for(ready) -> None:
    until = time.monotonic() + 60
    while not ready() and time.monotonic() < until:
        time.sleep(0.02)
    assert ready()


@contextmanager
def served(room: Starlette) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(room, ws="none", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def test_nobody_is_asked_for_a_node_that_has_gone() -> None:
    """The SuperLink would hand over a message, and count it as delivered."""
    link = SuperLink(httpx.Response(200))
    with served(waiting_room(link.client())) as port:
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(f"POST {PULL} HTTP/1.1\r\nHost: it\r\nContent-Length: 0\r\n\r\n".encode())
            wait_for(lambda: len(link.asked) > 3)
        seen = -1
        while seen < len(link.asked):  # until it has noticed
            seen = len(link.asked)
            time.sleep(0.3)
        link.answers = [httpx.Response(200, content=b"task")]
        time.sleep(0.3)
        assert len(link.asked) == seen


def test_a_message_whose_asker_has_gone_is_kept_for_its_next_question() -> None:
    """As the SuperLink gives it once. Who asks is for the SuperLink to say."""
    gone, asked = threading.Event(), []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > 1:
            return httpx.Response(401 if request.headers["flwr-signature"] == "wrong" else 200)
        await anyio.to_thread.run_sync(gone.wait)
        return httpx.Response(200, content=b"task")

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://superlink")
    with served(waiting_room(client, hold=0.0)) as port:
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(f"POST {PULL} HTTP/1.1\r\nHost: it\r\nContent-Length: 1\r\n\r\n7".encode())
            wait_for(lambda: bool(asked))
        time.sleep(0.3)  # for its end to be noticed
        gone.set()

        def ask(node: bytes, signature: str) -> tuple[int, bytes]:
            headers = {"flwr-signature": signature}
            found = httpx.post(f"http://127.0.0.1:{port}{PULL}", content=node, headers=headers)
            return found.status_code, found.content

        assert ask(b"8", "right") == (200, b"")
        assert ask(b"7", "wrong") == (401, b"")
        assert ask(b"7", "right") == (200, b"task")
        assert ask(b"7", "right") == (200, b"")


def test_flower_takes_what_was_signed_once_again_and_says_nothing_without_a_message(
    tmp_path: Path,
) -> None:
    """What the room stands on, asked from a real SuperLink."""
    asked: list[httpx.Response] = []

    async def note(response: httpx.Response) -> None:
        asked.append(response)

    with Loopback(tmp_path, secure=True) as federation:
        node = federation.add_node("ward", {"site": "ward"})
        federation.wait_for_nodes()
        key = load_ssh_private_key((tmp_path / "keys" / "ward").read_bytes(), None)
        question = PullMessagesRequest(node=Node(node_id=node.node_id))
        request = httpx.Request("POST", f"https://it{PULL}")
        signer = NodeAuthHttpInterceptor(key, key.public_key())  # type: ignore[arg-type]
        context = ProtobufRequestContext("", question, request)
        signer.intercept(context, lambda _: httpx.Response(200))
        trust = ssl.create_default_context(cafile=tmp_path / "certificates" / "ca.crt")
        hooks = {"response": [note]}
        address = f"https://{federation.address}"
        client = httpx.AsyncClient(base_url=address, verify=trust, event_hooks=hooks)
        kind = {"content-type": "application/protobuf", "accept": "application/protobuf"}
        found = TestClient(waiting_room(client, hold=1.0)).post(
            PULL, content=question.SerializeToString(), headers={**request.headers, **kind}
        )
    assert (found.status_code, found.content) == (200, b"")
    assert len(asked) > 1
    assert {answer.status_code for answer in asked} == {200}


DRAWING = """
import os, random
import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

@client.train()
def draw(message, context):
    drawn = {"numpy": np.random.random(), "python": random.random(), "process": os.getpid()}
    answer = RecordDict({"answer": ConfigRecord({"settings": json.dumps(drawn)})})
    return Message(answer, reply_to=message)
"""


def test_each_message_has_a_process_of_its_own_without_a_new_python(tmp_path: Path) -> None:
    app, answers = hello_app.write(tmp_path / "app"), tmp_path / "answers.json"
    code = app / "hello" / "apps.py"
    text = code.read_text().replace('"query.hello") for', '"train") for')
    text = text.replace("in grid.get_node_ids()", "in 3 * list(grid.get_node_ids())")
    code.write_text(text + DRAWING)
    with Loopback(tmp_path / "federation", quick=True) as federation:
        node = federation.add_node("ward", {"site": "ward"})
        federation.wait_for_nodes()
        (launcher,) = [p.pid for p in psutil.Process(node.pid).children()]
        run = federation.run(app, {"answers": str(answers)})
        status = federation.wait(run, 120)
        assert status == "finished:completed", federation.run_log(run).read_text()
        assert psutil.Process(launcher).ppid() == node.pid
    drawn = json.loads(answers.read_text())
    assert len(drawn) == 3
    for what in ("numpy", "python", "process"):
        assert len({each[what] for each in drawn}) == 3, what
    wait_for(lambda: not psutil.pid_exists(launcher))


def test_a_launcher_ends_with_its_supernode() -> None:
    starter = f"import os, subprocess as s, time; s.Popen({[*LAUNCHER, '127.0.0.1:1']!r} + "
    starter += "[str(os.getpid())]); time.sleep(600)"
    supernode = psutil.Popen([sys.executable, "-c", starter], stdin=subprocess.DEVNULL)
    try:
        wait_for(supernode.children)
        (launcher,) = supernode.children()
    finally:
        supernode.kill()
        supernode.wait()
    wait_for(lambda: not launcher.is_running() or launcher.status() == psutil.STATUS_ZOMBIE)


def test_the_launcher_asks_where_the_supernode_answers() -> None:
    assert runtime_address([]) == "127.0.0.1:9094"
    given = ["--superlink", "host:9092", "--port", "9095", "--host=localhost", "--insecure"]
    assert runtime_address(given) == "localhost:9095"
    for word in ("--isolation", "--ssl-certfile=x", "--allow-runtime-dependency-installation"):
        with pytest.raises(ConfigError, match="without --"):
            runtime_address([word])


def test_a_node_says_what_flowers_says(cli) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flr.cli.main", "flower", "node", "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "1.4" in done.stdout
    assert cli("flower", "node", "--isolation", "subprocess").code != 0
    assert cli("flower", "waiting-room", "--ssl-keyfile", "key").code != 0
