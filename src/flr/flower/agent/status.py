"""What an agent says of itself in its state-dir, for the people at the site."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flr.core.arrays import canonical_json, write_atomically
from flr.core.errors import DataError

NAME = "agent.json"


@dataclass(frozen=True)
class Status:
    """An agent and what it has done; written anew after every answer.

    Args:
        socket: Where it listens.
        own: Its node config, without what is left out.
        pid: Of its process, with `born`, by which another process of that number is told apart.
        since: When it started.
        answered: How many messages it has answered since then.
        refused: How many of these with a reason why not.
        last: When, and what it was asked.
        now: What it does at the moment; empty when it waits.
    """

    socket: str
    own: dict[str, str | int | float | bool]
    pid: int
    born: str
    since: str
    answered: int = 0
    refused: int = 0
    last: str = ""
    now: str = ""
    users: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether that very process is there."""
        return bool(self.born) and self.born == birth(self.pid)

    def working(self, what: str) -> Status:
        """At work on something."""
        return replace(self, now=what)

    def done(self, refused: bool) -> Status:
        """One more answer has been given."""
        last = f"{moment()} {self.now}"
        more = int(refused)
        return replace(
            self, answered=self.answered + 1, refused=self.refused + more, last=last, now=""
        )

    def save(self, folder: Path) -> None:
        """For its owner only: it says where data are."""
        write_atomically(folder / NAME, canonical_json(asdict(self)), mode=0o600)

    @classmethod
    def load(cls, folder: Path) -> Status:
        """Of the agent that has, or had, this state-dir."""
        path = folder / NAME
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes(), strict=True)
        except FileNotFoundError:
            raise DataError(
                f"Expected the state-dir of an agent at {folder}; it has no {NAME}. Give the "
                "--state-dir of `flr site serve`."
            ) from None
        except (ValidationError, ValueError) as error:
            raise DataError(
                f"Expected {path} as an agent writes it; it is damaged ({type(error).__name__}). "
                "Start the agent again; it writes a new one."
            ) from None


def moment() -> str:
    """Now, as the ledger has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def birth(pid: int) -> str:
    """When a process started, in the kernel's own count; empty where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def own_birth() -> str:
    """Of this process."""
    return birth(os.getpid())
