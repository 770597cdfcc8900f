"""`flr site serve`, `status` and `audit`: a site's agent, and what its people see of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flr.cli.audit import audit_site
from flr.cli.flower import needing_flower
from flr.cli.terminal import say
from flr.core.errors import DataError
from flr.core.interrupts import stops_like_ctrl_c
from flr.core.plain_text import counted, plain

AgentDir = Annotated[Path, typer.Argument(help="The state-dir of an agent.", metavar="FOLDER")]
_BYTES = 1_000_000


def serve(
    socket: Annotated[
        Path, typer.Option(help="Made here; `agent` in the SuperNode's node config.")
    ],
    site: Annotated[str, typer.Option(help="The site's name.")] = "",
    data: Annotated[Path | None, typer.Option(help="Its samples: a folder, .csv or .npz.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="What it agrees to (default: that in --state-dir).")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Where state and ledger are (default: ~/.flr/state).")
    ] = None,
    label: Annotated[str, typer.Option(help="Column of the classes in a .csv.")] = "label",
    size: Annotated[int | None, typer.Option(min=1, help="Scale images to so many pixels.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="Its class list, with commas; compared with the server's.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    partition_id: Annotated[
        int | None, typer.Option(min=0, help="Instead of --data: of a simulated split, for trials.")
    ] = None,
    accept_new_data: Annotated[
        bool, typer.Option("--accept-new-data", help="After a change of data, begin tables anew.")
    ] = False,
    users: Annotated[
        list[str] | None,
        typer.Option("--allow-user", help="Who may ask, besides its own user; may be repeated."),
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--allow-group", help="The same; may be repeated.")
    ] = None,
    largest: Annotated[
        int, typer.Option(min=1, help="Megabytes of arrays that it receives at a time.")
    ] = 1000,
    metrics: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1 for Prometheus; 0: none.")
    ] = 0,
) -> None:
    """Own a site's data and train on them, for the SuperNodes that ask at SOCKET; until Ctrl-C."""
    with needing_flower():
        from flr.flower.agent.peers import Peers
        from flr.flower.agent.site_agent import SiteAgent
        from flr.flower.prometheus import AgentNumbers
    if partition_id is None and not (site and data):
        raise typer.BadParameter("say whose data it owns: --site ward-7 --data /path/to/them")
    given: dict[str, str | int | bool | None] = {
        "site": site or None,
        "data": _absolute(data),
        "policy": _absolute(policy),
        "state-dir": _absolute(state_dir),
        "label": label,
        "size": size,
        "classes": classes,
        "device": device,
        "partition-id": partition_id,
        "accept-new-data": accept_new_data or None,
    }
    own = {key: value for key, value in given.items() if value is not None}
    who = Peers.of(users or [], groups or [])
    numbers = AgentNumbers(metrics) if metrics else None
    place, most = socket.expanduser().absolute(), largest * _BYTES
    agent = SiteAgent(own, place, who, most, numbers=numbers)
    before = os.umask(0o077)  # features and states are for its own user
    try:
        with stops_like_ctrl_c():
            agent.serve()
    except KeyboardInterrupt:
        say("Stopped. What was being worked on is asked again when it is back.")
    finally:
        os.umask(before)


def _absolute(path: Path | None) -> str | None:
    """A service may be told to change its folder."""
    return None if path is None else str(path.expanduser().absolute())


def status(folder: AgentDir) -> None:
    """Whether the agent runs, what it does, and how much has left the site."""
    with needing_flower():
        from flr.flower import ledger
        from flr.flower.agent.status import Status
        from flr.flower.site_config import SiteConfig
    found = Status.load(folder)
    own = SiteConfig.model_validate({"site": "", "state-dir": str(folder), **found.own})
    state = f"runs since {found.since}" if found.running else "does not run"
    say(f'site "{own.site or f"site-{own.partition_id}"}": its agent {state}')
    rows = {
        "socket": found.socket,
        "data": str(own.data or f"site {own.partition_id} of a simulated split"),
        "policy": str(own.policy or folder / "policy.toml"),
        "may ask": ", ".join(
            [*(f"user {n}" for n in found.users), *(f"group {n}" for n in found.groups)]
        ),
        "at work": found.now if found.running and found.now else "no",
        "last": found.last or "nothing yet",
        "answers": f"{found.answered:,} since its start, {found.refused:,} of them refusals",
    }
    if (folder / ledger.NAME).exists():
        lines = ledger.read(folder)
        size = sum(line.bytes for line in lines.lines)
        rows["ledger"] = f"{counted(len(lines.lines), 'reply').replace('replys', 'replies')}, "
        rows["ledger"] += f"{size:,} bytes; {counted(len(lines.problems), 'problem')}"
    for key, value in rows.items():
        say(f"  {key + ':':9} {plain(value)}")


def audit(
    folder: AgentDir,
    model: Annotated[
        Path | None, typer.Option(help="model.safetensors of a federation, for its opinion.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="With --model: the experiment whose state is read.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the code that the model file names.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the result (default: a new one, audit-NAME).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier audit in --out.")
    ] = False,
) -> None:
    """Rank the labels of the agent's data that look wrong. Sends nothing; the agent may run."""
    from flr.audit.site_files import SiteFiles

    with needing_flower():
        from flr.flower.agent.status import Status
        from flr.flower.site_config import SiteConfig
    if run is not None and model is None:
        raise typer.BadParameter("--run goes with --model")
    found = Status.load(folder)
    own = SiteConfig.model_validate({"site": "", "state-dir": str(folder), **found.own})
    if own.data is None:
        raise DataError(
            f"Expected an agent with data of its own; that of {folder} has a simulated site. "
            "Audit the run: flr audit RUN."
        )
    kept = folder / run if run else folder
    state = kept if model is not None and any(kept.rglob("*.safetensors")) else None
    table = own.data.suffix.lower() not in ("", ".npz")
    files = SiteFiles(own.data, model, None, state, own.label if table else None, own.size, trust)
    audit_site(files, out, "flr", False, overwrite)
