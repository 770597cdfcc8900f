"""Where SuperNodes' questions wait for work: a reverse proxy before a SuperLink's Fleet API.

A SuperNode asks for its next message, and sleeps for three seconds where there is none. There is
none right after each of its answers, as the next task depends on them: most of a short round is
that sleep. Here a question without an answer is asked again for it, up to five times a second, and
comes back when there is a message, or after 15 s. All else is passed on as it is.

It stands on two habits of Flower 1.41: an answer without a message has an empty body, and what a
SuperNode signs is the time, good for five minutes. A SuperNode reads for 30 s.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FLEET = "/v1/fleet/{call}"
HELD = "pull-messages"
HOLD = 15.0  # seconds; a SuperNode waits 30 for an answer, and one that comes too late is lost
PAUSE = 0.2  # seconds between two questions for one node to the SuperLink, at least
EACH = 0.05  # seconds between two questions at all: many nodes wait longer, the SuperLink is spared

_PATIENCE = 60.0  # seconds for any other call
_OF_ONE_LINE = ("host", "connection", "keep-alive", "transfer-encoding", "content-length")


def waiting_room(superlink: httpx.AsyncClient, hold: float = HOLD) -> Starlette:
    """The proxy as an ASGI app; `superlink` has the SuperLink's address as its base."""
    kept: dict[bytes, Response] = {}  # by question: messages whose asker had gone when they came
    waiting: set[Request] = set()

    async def pass_on(request: Request) -> Response:
        call, body = request.path_params["call"], await request.body()
        headers = {k: v for k, v in request.headers.items() if k not in _OF_ONE_LINE}
        until = time.monotonic() + hold
        while True:
            try:
                answer = await superlink.post(f"/v1/fleet/{call}", content=body, headers=headers)
            except httpx.TransportError:
                return Response(status_code=502)  # Flower tries again
            found = Response(answer.content, answer.status_code, _of_answer(answer.headers))
            if call != HELD or answer.status_code != 200:
                return found
            if answer.content:
                if await request.is_disconnected():  # the SuperLink will not give it again
                    kept[body] = found
                return found
            if body in kept:  # the SuperLink has just said that it is this node who asks
                return kept.pop(body)
            if time.monotonic() >= until:
                return found
            waiting.add(request)
            try:
                await asyncio.sleep(max(PAUSE, EACH * len(waiting)))
            finally:
                waiting.remove(request)
            if await request.is_disconnected():  # nothing is asked for nobody
                return Response(status_code=499)

    return Starlette(routes=[Route(FLEET, pass_on, methods=["POST"])])


def _of_answer(headers: Mapping[str, str]) -> dict[str, str]:
    """What is about the answer, not about the line that it came by."""
    lost = (*_OF_ONE_LINE, "content-encoding", "date", "server")
    return {name: value for name, value in headers.items() if name not in lost}


def serve(superlink: str, host: str, port: int, certificates: Sequence[Path] = ()) -> None:
    """Passes calls on to the SuperLink at `superlink` until it is told to end.

    `certificates` are those of the SuperLink: its authority, its own, and the key.
    """
    scheme, context, own = "http", None, {}
    if certificates:
        authority, certificate, key = certificates
        scheme, context = "https", ssl.create_default_context(cafile=authority)
        own = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    client = httpx.AsyncClient(
        base_url=f"{scheme}://{superlink}",
        verify=context or False,
        timeout=_PATIENCE,
        trust_env=False,  # no proxy between two programs of one machine
        # shorter than the SuperLink keeps a line open: none is used that is just being closed
        limits=httpx.Limits(keepalive_expiry=2.0),
    )
    config = uvicorn.Config(
        waiting_room(client),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=1,  # those who wait ask again
        **own,  # type: ignore[arg-type]
    )
    uvicorn.Server(config).run()


def main() -> None:
    """A process of its own, which imports no more than it needs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--superlink", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificates", type=Path, nargs=3, default=())
    own = parser.parse_args()
    serve(own.superlink, own.host, own.port, own.certificates)


if __name__ == "__main__":
    main()
