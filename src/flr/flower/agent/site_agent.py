"""The resident process of a site: it alone has data, features, state, policy and ledger.

Connections are read and answered by threads, and all work is done by the one that called `serve`,
a task after the other: torch's generator and the networks are shared. Whoever connects may run code
that the server has chosen. What it gets is what `site_app` answers, policy and ledger included.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from flwr.app import Context, Message, RecordDict

from flr.core.arrays import clear_half_written
from flr.core.errors import ConfigError
from flr.core.plain_text import plain
from flr.flower import site_config, wire
from flr.flower.agent import frames, peers
from flr.flower.agent.frames import EndedError, FrameError
from flr.flower.agent.listening import listening
from flr.flower.agent.peers import Peers
from flr.flower.agent.request import Header, Request, answer_of
from flr.flower.agent.status import NAME as STATUS
from flr.flower.agent.status import Status, moment, own_birth
from flr.flower.prometheus import AgentNumbers
from flr.flower.site_app import site_app
from flr.flower.site_config import SiteConfig
from flr.flower.what_left import note_of
from flr.models import feature_cache

log = logging.getLogger("flr")

Frame = tuple[dict[str, Any], list[bytes]]
Job = tuple[Request, socket.socket, "Future[Frame]"]

MOST = 1 << 30  # bytes of arrays that are received at a time, over all connections
CONNECTIONS = 8
READ = 120.0  # seconds in which a whole message has to come
PAUSE = 1.0  # seconds after a refusal: its line in the ledger stays, and there is room for so many

_BUSY = {"busy": True}


class SiteAgent:
    """Answers messengers until it is stopped.

    Args:
        own: The site's node config, as a SuperNode without an agent would have it.
        path: Where the socket is made.
        who: Who may ask besides this process's own user.
        most: Bytes of arrays that it receives at a time.
        pause: Seconds after a refusal.
        numbers: Where its answers are counted for Prometheus.
    """

    def __init__(
        self,
        own: Mapping[str, str | int | float | bool],
        path: Path,
        who: Peers | None = None,
        most: int = MOST,
        pause: float = PAUSE,
        numbers: AgentNumbers | None = None,
    ) -> None:
        self.numbers = numbers
        self.path, self.who, self.most, self.pause = path, who or Peers.of(), most, pause
        self.context = Context(0, 0, dict(own), RecordDict(), {})
        try:
            self.site = SiteConfig.of(self.context)
        except site_config.RefusalError as error:
            raise ConfigError(f"Expected what a node config has: {error}.") from None
        self.status = Status(
            str(path),
            dict(own),
            os.getpid(),
            own_birth(),
            moment(),
            users=sorted(self.who.users),
            groups=sorted(self.who.groups),
        )
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._room = threading.Lock()
        self._held = self._connections = 0
        self._strangers: set[int] = set()
        self._ending = threading.Event()

    def serve(self) -> None:
        """Works until `stop`; a message that is being worked on is lost to who asks again."""
        with self._state_dir(), listening(self.path, self.who.others, CONNECTIONS) as listener:
            log.info('site "%s" listens at %s', self.site.site, self.path)
            log.info("its state and ledger are in %s", self.site.state_dir)
            threading.Thread(target=self._accept, args=[listener], daemon=True).start()
            try:
                while (job := self._jobs.get()) is not None:
                    self._do(*job)
            finally:
                self._ending.set()

    def _do(self, request: Request, connection: socket.socket, future: Future[Frame]) -> None:
        if _gone(connection):  # a SuperNode was stopped: nobody waits for this
            future.set_exception(EndedError("who asked has gone before its turn"))
        else:
            future.set_result(self._work(request))

    def stop(self) -> None:
        """Ends `serve` after the message that it works on."""
        self._jobs.put(None)

    @contextmanager
    def _state_dir(self) -> Iterator[None]:
        """The site's own folder, for one agent at a time, and closed to all others."""
        folder = self.site.state_dir
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.who.others:
                data = [self.site.data] if self.site.data else []
                peers.refuse_open([folder, feature_cache.folder(), *data])
            with FileLock(folder / ".agent.lock", timeout=0):
                clear_half_written(folder / STATUS)  # of one that was killed
                self.status.save(folder)
                yield
        except Timeout:
            raise ConfigError(
                f"Expected a state-dir without an agent; another one works in {folder}. Stop it, "
                "or choose another --state-dir."
            ) from None

    def _accept(self, listener: socket.socket) -> None:
        """Goes on whatever the system says, such as that there are too many open files."""
        while not self._ending.is_set():
            try:
                connection, _ = listener.accept()
            except OSError as error:
                log.debug("nobody is let in: %s", error)
                self._ending.wait(0.2)
            else:
                self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        """A connection that is refused is told so, and costs nothing more."""
        user, group = peers.who(connection)
        if not self.who.allow(user, group):
            if user not in self._strangers:
                log.warning("user %s is not allowed to ask; refused from now on", user)
            self._strangers.add(user)
            _last_words(connection, {"refused": "its agent does not answer this user"})
        elif self._connections >= CONNECTIONS:
            _last_words(connection, _BUSY)
        else:
            with self._room:
                self._connections += 1
            threading.Thread(target=self._hear, args=[connection], daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        """One message and its answer; whatever comes, the agent goes on."""
        try:
            with connection:
                self._answer(connection)
        except (FrameError, OSError) as error:
            log.warning("a message was refused: %s", plain(error))
        except Exception:
            log.exception("a message could not be answered")
        finally:
            with self._room:
                self._connections -= 1

    def _answer(self, connection: socket.socket) -> None:
        until = time.monotonic() + READ
        try:
            header = Header.of(frames.receive_header(connection, until))
            if header.bytes > self.most:
                raise FrameError(
                    f"arrays of {header.bytes:,} bytes; it takes {self.most:,} (--largest)"
                )
        except EndedError:
            raise
        except FrameError as error:
            _last_words(connection, {"refused": f"its agent refused {plain(error)}"})
            raise
        with self._room_for(header.bytes) as there_is:
            if not there_is:
                _last_words(connection, _BUSY)
                return
            parts = [frames.receive(connection, each.bytes, until) for each in header.arrays or ()]
            future: Future[Frame] = Future()
            self._jobs.put((Request(header, parts), connection, future))
            answer, blobs = future.result()
            connection.settimeout(READ)  # nobody has to read what they asked for
            frames.send(connection, answer, blobs)

    @contextmanager
    def _room_for(self, size: int) -> Iterator[bool]:
        """Whether so many bytes more may be received; they count until they are answered."""
        with self._room:
            fits = self._held + size <= self.most
            self._held += size if fits else 0
        try:
            yield fits
        finally:
            with self._room:
                self._held -= size if fits else 0

    def _work(self, request: Request) -> Frame:
        """What leaves the site is made here, and entered in its ledger before this returns."""
        message, began = request.message(), time.monotonic()
        self._tell(self.status.working(in_words(message)))
        try:
            reply = site_app()(message, self.context)
        except Exception:
            log.exception("a message could not be answered")
            note = {"site": self.site.site, "problem": "its agent failed; its log says why"}
            reply = Message(wire.write(note), reply_to=message)
        refused = reply.has_error() or "problem" in note_of(reply)
        self._tell(self.status.done(refused))
        log.info("%s%s", self.status.last, ": refused" if refused else "")
        answer, blobs = answer_of(reply)
        if self.numbers:
            sizes = sum(map(len, blobs)), request.header.bytes
            self.numbers.answered(refused, time.monotonic() - began, *sizes)
        if refused:
            time.sleep(self.pause)
        return answer, blobs

    def _tell(self, status: Status) -> None:
        """In its state-dir, if the disk can hold it."""
        self.status = status
        if self.numbers:
            self.numbers.working.set(bool(status.now))
        with suppress(OSError):
            status.save(self.site.state_dir)


def in_words(message: Message) -> str:
    """What is asked, for the log and for people."""
    note = note_of(message)
    order = note.get("order")
    if not isinstance(order, dict):
        return f"roll call of run {plain(note.get('experiment'))}"
    turn = order.get("round")
    number = turn + 1 if isinstance(turn, int) else "?"
    return f"{plain(order.get('task'))} in round {number} of run {plain(note.get('experiment'))}"


def _gone(connection: socket.socket) -> bool:
    """Whether the other end has closed; it sends nothing while it waits.

    Asked of the system first: `recv` on a socket with a timeout waits, whatever its flags are.
    """
    looking = select.poll()
    try:
        looking.register(connection, select.POLLIN)
        return bool(looking.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):  # it is closed here, too
        return True


def _last_words(connection: socket.socket, header: Mapping[str, Any]) -> None:
    with connection, suppress(OSError):
        connection.settimeout(1.0)
        frames.send(connection, header)
