"""A whole federation on this machine, for a look at it: SuperLink, SuperNodes and one run."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flr.core.errors import RunError
from flr.flower.check_app import Scalar, check_run, fused, run_config
from flr.flower.local.loopback import Loopback
from flr.flower.local.processes import tail
from flr.flower.new_app import write_app
from flr.report import jsonl, recorder
from flr.simulation.folders import refuse_other_runs

OnRound = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


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
        values = fused(run_config(app), {**changes, "flower.out": str(out)})
        say(f"To run: {check_run(values)}.")
        with Loopback(Path(place) / "federation", secure=secure, quick=True) as federation:
            sites = int(values["partition.clients"])
            tls, keys = (" with TLS", ", each with a key") if secure else ("", "")
            say(f"SuperLink on {federation.address}{tls}; starting {sites} SuperNodes{keys}.")
            for number in range(sites):
                own = {"partition-id": number, "num-partitions": sites}
                federation.add_node(f"site-{number}", {**own, "state-dir": f"{place}/state"})
            federation.wait_for_nodes()
            say("All SuperNodes are there. The first round takes longest.")
            shown = 0

            def show_new() -> None:
                nonlocal shown
                lines = jsonl.read(out / recorder.METRICS)
                for line in lines[shown:]:
                    on_round(line)
                shown = len(lines)

            run = federation.run(app, values)
            status = federation.wait(run, math.inf, show_new)
            show_new()
            if status != "finished:completed":
                raise RunError(
                    f"Expected the run to finish; Flower says {status}. Mend what its log says, "
                    f"then try again. It ends with:\n{tail(federation.run_log(run))}"
                )
    return out
