"""What should be said of a run whose numbers look like any others: that it has learned nothing.

Weights that are not finite end a run; those that merely grew, or were thrown far away by a single
step, do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flr.report.formatting import percent

LARGEST = 1e4  # no weight of a network that learns from normalised inputs comes near


def remarks(accuracy: Mapping[str, Any], largest: float | None) -> list[str]:
    """Sentences for the terminal and the page; mostly none.

    Args:
        accuracy: That of `summary.json`.
        largest: The largest number among the model's weights.

    Example:
        >>> remarks({"best": 0.1, "best_round": 1, "last": 0.1, "commonest": 0.1}, 3e6)
    """
    found, last, floor = [], accuracy["last"], accuracy["commonest"]
    if last is not None and floor is not None and last <= floor:
        before = ""
        if accuracy["best"] > floor:
            before = f"; round {accuracy['best_round']} had reached {percent(accuracy['best'])}"
        found.append(
            f"Nothing was learned: the model of the last round is right on {percent(last)} of the "
            f"test set, always naming its commonest class on {percent(floor)}{before}. Lower "
            "[train] lr, or give it more rounds."
        )
    if largest is not None and largest > LARGEST:
        found.append(
            f"Training has diverged: the largest weight of the model is {largest:.2g}, and no "
            f"network that learns has any above {LARGEST:.0e}. Lower [train] lr, or set [train] "
            "clip."
        )
    return found
