"""One file over http or https, resumed where the server can do that."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from flr.core.errors import DataError

Report = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known

_CHUNK = 1 << 16
_PATIENCE = 30.0  # seconds without a byte
LARGEST = 2**30  # bytes: several times the largest file of any data set we know

_FAILURES = (URLError, ConnectionError, TimeoutError, http.client.HTTPException)


class UnreachableError(Exception):
    """The network, the server or the connection failed; the message says how."""


def download(url: str, part: Path, report: Report) -> None:
    """Completes `part`, which may hold the beginning already; goes on when a connection breaks.

    A server that cannot resume is asked for the whole file. An attempt that brings nothing new is
    the last one.
    """
    require_http(url)
    have = -1
    while (before := part.stat().st_size if part.exists() else 0) > have:
        have = before
        try:
            _attempt(url, part, have, report)
            return
        except _FAILURES as error:
            if isinstance(error, HTTPError):
                reason = f"the server answers {error}"
            else:
                reason = f"it cannot be reached ({getattr(error, 'reason', None) or error})"
            failure = error
    raise UnreachableError(reason) from failure


def require_http(url: str) -> None:
    """Refuses files, ftp and whatever else urllib could open."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(
            f'Expected an address that begins with http:// or https://; got "{url}". Give another '
            "one with --from."
        )


def _attempt(url: str, part: Path, have: int, report: Report) -> None:
    headers = {"User-Agent": "flr", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        wanted = request.Request(url, headers=headers)  # noqa: S310 - `require_http` has seen it
        response = _opener().open(wanted, timeout=_PATIENCE)
    except HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return  # nothing is left to send: the checksum decides
        raise
    with response:
        sent = response.headers.get("Content-Range", "")
        partial = response.status == http.HTTPStatus.PARTIAL_CONTENT
        done = have if partial and sent.startswith(f"bytes {have}-") else 0  # else all of it again
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if done else "wb") as out:
            name = part.name.removesuffix(".part")
            report(name, done, total)
            _refuse_size(url, part, total or 0)
            while chunk := response.read(_CHUNK):
                out.write(chunk)
                done += len(chunk)
                _refuse_size(url, part, done)
                report(name, done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection broke after {done:,} of {total:,} bytes")


def _refuse_size(url: str, part: Path, size: int) -> None:
    """A server that never stops, or sends something else, must not fill the disk."""
    if size > LARGEST:
        part.unlink(missing_ok=True)
        raise DataError(
            f"Expected a file of at most {LARGEST:,} bytes at {url}; it has {size:,} or more. "
            "It was thrown away. Give another address with --from."
        )


class _Careful(request.HTTPRedirectHandler):
    """Follows nobody out of http, nor from https back to it."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, h: Any, new: str) -> Any:
        require_http(new)
        if req.type == "https" and urlsplit(new).scheme != "https":
            raise DataError(
                f"Expected {req.full_url} to stay with https; it leads to {new}. Give another "
                "address with --from."
            )
        return super().redirect_request(req, fp, code, msg, h, new)


def _opener() -> request.OpenerDirector:
    """Speaks http and https only; urllib's usual one would open files too."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        _Careful(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
