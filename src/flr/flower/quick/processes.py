"""Turns this process into a SuperNode with a launcher beside it, or into a waiting room."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from flwr.supercore.constant import SUPERNODE_UVICORN_DEFAULT_PORT, UVICORN_DEFAULT_HOST

from flr.core.errors import ConfigError

PYTHON = (sys.executable, "-P")  # nothing is imported from the folder it is started in
LAUNCHER = (*PYTHON, "-m", "flr.flower.quick.launcher")
WAITING_ROOM = (*PYTHON, "-m", "flr.flower.quick.waiting_room")
NODE = (*PYTHON, "-m", "flr.flower.quick.processes")

_NOT_HERE = ("--isolation", "--ssl-certfile", "--allow-runtime-dependency-installation")


def become_supernode(arguments: Sequence[str]) -> NoReturn:
    """Starts the launcher, then turns this process into `flower-supernode`.

    So signals, exit codes and words are the SuperNode's own.
    """
    address = runtime_address(arguments)
    program = str(Path(sys.executable).parent / "flower-supernode")
    if not {"--help", "-h", "--version", "-V"} & set(arguments):
        subprocess.Popen([*LAUNCHER, address, str(os.getpid())])  # noqa: S603
    os.execv(program, [program, "--isolation", "process", *arguments])  # noqa: S606


def runtime_address(arguments: Sequence[str]) -> str:
    """Where a SuperNode with these arguments tells others of this machine about its tasks."""
    if found := [word for word in arguments if word.split("=")[0] in _NOT_HERE]:
        raise ConfigError(
            f"Expected a SuperNode's arguments without {', '.join(found)}, which `flr flower node` "
            "cannot honour. Leave that out, or start flower-supernode itself."
        )
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--host", default=UVICORN_DEFAULT_HOST)
    parser.add_argument("--port", default=SUPERNODE_UVICORN_DEFAULT_PORT)
    own, _ = parser.parse_known_args(arguments)
    return f"{own.host}:{own.port}"


def become_waiting_room(
    superlink: str, host: str, port: int, certificates: Sequence[Path]
) -> NoReturn:
    """Another program without what a command of flr has imported, which is most of its memory."""
    command = [*WAITING_ROOM, "--superlink", superlink, "--host", host, "--port", str(port)]
    if certificates:
        command += ["--certificates", *map(str, certificates)]
    os.execv(sys.executable, command)  # noqa: S606


if __name__ == "__main__":
    become_supernode(sys.argv[1:])
