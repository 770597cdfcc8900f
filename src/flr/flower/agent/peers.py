"""Who may ask an agent: users and groups of this machine, as the kernel says who they are."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flr.core.errors import ConfigError

_CREDENTIALS = struct.Struct("3i")  # process, user, group: struct ucred of Linux
_READ, _ENTER = 0o004, 0o001  # what everybody may do


@dataclass(frozen=True)
class Peers:
    """Users and groups by number; the agent's own user is always among them.

    Args:
        users: Who may connect.
        groups: Whose members may: by the group that a process runs in.
    """

    users: frozenset[int]
    groups: frozenset[int] = frozenset()

    @classmethod
    def of(cls, users: Iterable[str] = (), groups: Iterable[str] = ()) -> Peers:
        """From names or numbers."""
        named = {_number(name, "user", lambda n: pwd.getpwnam(n).pw_uid) for name in users}
        listed = {_number(name, "group", lambda n: grp.getgrnam(n).gr_gid) for name in groups}
        return cls(frozenset({os.geteuid(), *named}), frozenset(listed))

    @property
    def others(self) -> bool:
        """Whether anybody but the agent's own user may ask."""
        return bool(self.groups or self.users - {os.geteuid()})

    def allow(self, user: int, group: int) -> bool:
        """Whether a process of this user and group may ask."""
        return user in self.users or group in self.groups


def who(connection: socket.socket) -> tuple[int, int]:
    """User and group of the process at the other end, from when it connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, group = _CREDENTIALS.unpack(raw)
    return int(user), int(group)


def refuse_open(paths: Iterable[Path]) -> None:
    """An agent for others guards nothing that everyone on the machine can read."""
    if found := [path for path in paths if readable_by_all(path)]:
        named = ", ".join(map(str, found))
        raise ConfigError(
            f"Expected files that only the agent's user can read, since others may ask it; every "
            f"user can read {named}. Take it away from them: chmod -R o-rwx, there or one folder "
            "above."
        )


def readable_by_all(path: Path) -> bool:
    """Whether any user of the machine gets at a file or into a folder; a missing one is for none.

    All folders above have to let everybody through.
    """
    path = path.resolve()
    needed = _READ | _ENTER if path.is_dir() else _READ
    if not path.exists() or not path.stat().st_mode & needed:
        return False
    return all(folder.stat().st_mode & _ENTER for folder in path.parents)


def _number(name: str, kind: str, look_up: Callable[[str], int]) -> int:
    if name.isdecimal():
        return int(name)
    try:
        return look_up(name)
    except KeyError:
        raise ConfigError(
            f'Expected a {kind} of this machine; there is no "{name}". Give a name or a number, '
            f"as `id` shows it, with --allow-{kind}."
        ) from None
