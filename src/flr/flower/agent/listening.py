"""The socket on which an agent listens: made, opened to others or not, and taken away again."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flr.core.errors import ConfigError

_LONGEST = 100  # bytes of a path; the kernel has 108


@contextmanager
def listening(path: Path, others: bool, waiting: int) -> Iterator[socket.socket]:
    """A socket that `others` can open, too; what an agent that was killed has left is replaced."""
    if len(os.fsencode(path)) > _LONGEST:
        raise ConfigError(
            f"Expected a socket's path of at most {_LONGEST} bytes; got {path}. Choose a shorter "
            "one, such as /run/flr/site.sock."
        )
    _clear(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
            # the kernel says who connects, so that the file's mode need not
            path.chmod(0o666 if others else 0o600)
        except OSError as error:
            raise ConfigError(
                f"Expected to make a socket at {path}; the system says: {error.strerror}. Choose a "
                "folder that is there and yours."
            ) from None
        listener.listen(waiting)
        try:
            yield listener
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            path.unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Takes away a socket on which nobody listens; refuses to take anything else."""
    if not path.exists():
        return
    if _answers(path):
        raise ConfigError(
            f"Expected a free socket; an agent listens at {path}. Stop it, or choose another "
            "--socket."
        )
    if not path.is_socket():
        raise ConfigError(
            f"Expected to make a socket at {path}; there is a file. Choose another --socket."
        )
    path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
