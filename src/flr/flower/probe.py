"""What a SuperLink answers to somebody who has no key: asked before anybody trusts it.

Nothing is changed there: the calls are empty, and the one that would be answered only lists runs.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from flr.core.errors import DataError

FLEET, CONTROL = "/v1/fleet/activate-node", "/v1/control/list-runs"
RUNTIME = "/v1/runtime/get-nodes"

AHEAD, BEHIND = 5.0, 305.0  # seconds a node's clock may be off before Flower refuses its signature

_PROTOBUF = {"content-type": "application/protobuf"}
_NOT_THERE = (403, 404)


def require_safe(address: str, root_certificates: Path | None = None) -> None:
    """Raises DataError with all that is wrong with a SuperLink as sites reach it.

    Example:
        >>> require_safe("flower.example.org:9092", Path("ca.crt"))  # doctest: +SKIP
    """
    if found := probe(address, root_certificates):
        raise DataError(
            f"Expected a SuperLink at {address} that a site can trust and a clock that it accepts. "
            "Before a node is started:\n" + "\n".join(f"- {warning}." for warning in found)
        )


def probe(address: str, root_certificates: Path | None = None) -> list[str]:
    """Warnings about a SuperLink at the address that sites have; none where all is well.

    Raises DataError where no Fleet API answers there.
    """
    try:
        context = ssl.create_default_context(cafile=root_certificates)
        with httpx.Client(base_url=f"https://{address}", verify=context, timeout=20) as client:
            found = client.post(FLEET, headers=_PROTOBUF)
            if found.status_code in _NOT_THERE or found.status_code >= 500:
                raise DataError(
                    f"Expected the Fleet API of a SuperLink at {address}; {FLEET} gives "
                    f"{found.status_code}. Start the SuperLink, or correct its front door."
                )
            return [*_open_doors(client, address), *_clock(found)]
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise DataError(
            f"Expected a SuperLink with TLS at {address}; it cannot be asked: {error}. Correct the "
            "address (host:port) or --root-certificates, or start it."
        ) from error


def _open_doors(client: httpx.Client, address: str) -> Iterator[str]:
    """Names the APIs that only the server's own people and processes should reach."""
    meanings = {
        CONTROL: "anybody with ca.crt can register a key and run code at every site",
        RUNTIME: "anybody with ca.crt can take the place of the server's own processes",
    }
    for path, meaning in meanings.items():
        if client.post(path, headers=_PROTOBUF).status_code not in _NOT_THERE:
            api = path.split("/")[2].capitalize()
            yield (
                f"the {api} API answers at {address}: {meaning}. Start the SuperLink with "
                "--host 127.0.0.1 and put a front door before it (deploy/nginx.conf of the app)"
            )


def _clock(found: httpx.Response) -> Iterator[str]:
    """By the server's own time, which is in every answer, whole seconds."""
    try:
        there = parsedate_to_datetime(found.headers["date"])
    except (KeyError, ValueError):
        return
    off = (now() - there).total_seconds()
    if off >= AHEAD - 1 or off <= 1 - BEHIND:
        way = "ahead of" if off > 0 else "behind"
        yield (
            f"this clock is {abs(off):.0f} s {way} the server's: Flower refuses a node whose clock "
            f"is {AHEAD:g} s ahead or {BEHIND:g} s behind, and the node ends. Set it by NTP"
        )


def now() -> datetime:
    """The time here, which may be wrong."""
    return datetime.now(UTC)
