"""A whole federation on this machine, for a look at it: SuperLink, SuperNodes and one run."""

from __future__ import annotations

import json
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flr.errors import RunError
from flr.flower.check import Scalar, check_run, fused, run_config
from flr.flower.init import write_app
from flr.flower.loopback import Loopback
from flr.flower.processes import tail
from flr.folders import refuse_other_runs
from flr.report import diary

OnRound = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]

_LOOK = 0.2  # seconds between two looks at the run folder


def try_out(
    changes: Mapping[str, Scalar], out: Path, *, secure: bool, say: Say, on_round: OnRound
) -> Path:
    """Runs the generated app with these changes of its config; gives the run folder.

    There is one SuperNode for each simulated site. Everything but the run folder lies in a
    temporary one, and all processes end with this call, however it ends.
    """
    out = out.absolute()
    refuse_other_runs(out)
    with tempfile.TemporaryDirectory(prefix="flr-") as place:
        app = write_app(Path(place) / "try-out")
        values = fused(
            run_config(app), {**changes, "flower.out": str(out), "flower.node-keys": secure}
        )
        say(f"To run: {check_run(values)}.")
        with Loopback(Path(place) / "federation", secure=secure) as federation:
            sites = int(values["partition.clients"])
            say(f"SuperLink on {federation.address}; starting {sites} SuperNodes.")
            for number in range(sites):
                own = {"partition-id": number, "num-partitions": sites}
                federation.add_node(f"site-{number}", {**own, "state-dir": f"{place}/state"})
            federation.wait_for_nodes()
            run = federation.run(app, values)
            with followed(out / diary.METRICS, on_round):
                status = federation.wait(run, math.inf)
            if status != "finished:completed":
                raise RunError(
                    f"Expected the run to finish; Flower says {status}. Mend what its log says, "
                    f"then try again. It ends with:\n{tail(federation.run_log(run))}"
                )
    return out


@contextmanager
def followed(path: Path, on_round: OnRound) -> Iterator[None]:
    """Hands over the lines of a file that another process appends to, all of them at the end."""
    over = threading.Event()

    def follow() -> None:
        done, last = 0, False
        while not last:
            last = over.wait(_LOOK)
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            complete = text[: text.rfind("\n") + 1].splitlines()
            for line in complete[done:]:
                on_round(json.loads(line))
            done = len(complete)

    watcher = threading.Thread(target=follow, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
