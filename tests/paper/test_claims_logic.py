"""Claims within runs and across settings: made-up cells with a known answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flr.paper.claims import across_runs, within_runs
from flr.paper.claims.judgement import Line
from flr.paper.experiment import Coordinates, load
from flr.paper.pages import claims
from flr.paper.results import Cell
from flr.paper.runner import ExperimentResults, Runner
from flr.report.memorization import KEYS
from flr.report.summary import SIDES

SEEDS = (1, 2, 3)


def cell(
    best: float = 0.5,
    shares: Mapping[str, tuple[float, float, float]] | None = None,
    late: float = 0.5,
) -> Cell:
    """Shares of wrong labels seen through, in rounds 5, 10 and 20; the rest is memorized."""
    curve: dict[str, Any] = {"accuracy": []}
    for side in SIDES:
        correct = (shares or {}).get(side, (0.5, 0.5, 0.5))
        curve[side] = [
            [number, 1.0, 0.0, value, 0.0, 1 - value]
            for number, value in zip((5, 10, 20), correct, strict=True)
        ]
    last = {side: dict(zip(KEYS, curve[side][-1][1:], strict=True)) for side in SIDES}
    summary = {"accuracy": {"best": best, "last10": late}, "memorization": last}
    return Cell("", {"curve": curve, "summary": summary})


def outcome(name: str, cells: Mapping[tuple[str, str], Any]) -> dict[str, ExperimentResults]:
    """Every seed alike but for a hundredth, so that intervals are narrow."""
    found = {
        Coordinates(row, setting, seed): make(seed)
        for (row, setting), make in cells.items()
        for seed in SEEDS
    }
    return {name: ExperimentResults(load(name), SEEDS, {}, found, Runner(Path()))}


def accuracy(value: float, late: float = 0.5) -> Any:
    return lambda seed: cell(best=value + seed / 1000, late=late)


def memory(**shares: tuple[float, float, float]) -> Any:
    return lambda seed: cell(shares={s: (a, b, c + seed / 1e4) for s, (a, b, c) in shares.items()})


@pytest.mark.parametrize(("server", "verdict"), [(0.9, "holds"), (0.1, "contradicted")])
def test_the_server_is_slower_when_it_sees_through_more(server, verdict):
    runs = memory(server=(server,) * 3, client=(0.5, 0.5, 0.5))
    found = outcome("table-memorization", {("fedavg", "iid"): runs})
    assert [line.verdict for line in within_runs.server_is_slower(found)] == ["not run", verdict]


@pytest.mark.parametrize(("share", "verdict"), [(0.95, "holds"), (0.7, "contradicted")])
def test_ten_percent_is_a_bound_on_every_round(share, verdict):
    runs = memory(server=(0.95, share, 0.95), client_noisy=(0.95, share, 0.95))
    found = outcome("table-memorization", {("flr", "iid"): runs})
    assert [line.verdict for line in within_runs.stays_below_ten(found)] == [verdict] * 2


@pytest.mark.parametrize(("late", "verdict"), [(0.2, "holds"), (0.7, "contradicted")])
def test_early_rounds_are_compared_with_the_last_ten_and_no_peak_is_picked(late, verdict):
    def run(seed: int) -> Cell:
        seen_through = {10: 0.3, 25: 0.6, 35: 0.4, 40: 0.9, 45: late, 50: late + seed / 1e4}
        points = [[number, 1.0, 0.0, v, 0.0, 1 - v] for number, v in seen_through.items()]
        return Cell("", {"curve": {"accuracy": [], **dict.fromkeys(SIDES, points)}})

    found = outcome("table-memorization", {("fedavg", "iid"): run}) | outcome("fig-longer", {})
    early, rise, fall, *longer = within_runs.learns_then_memorizes(found)
    assert early.verdict == verdict
    assert f"{100 * (0.5 - late):+.1f}"[:4] in early.numbers
    assert (rise.verdict, fall.verdict) == ("holds" if late < 0.3 else "contradicted", "open")
    assert [line.verdict for line in longer] == ["not run"] * 3


def test_a_late_fall_is_from_the_best_ten_rounds_to_the_last_ten():
    def run(*accuracies: float) -> Cell:
        points = [[number, value] for number, value in enumerate(accuracies, 1)]
        return Cell("", {"curve": {"accuracy": points, **{side: [] for side in SIDES}}})

    rising, peaked = (0.1,) * 5, (0.9,)  # one round is no peak
    flat, falling = run(*rising, *[0.5] * 20, *peaked), run(*rising, *[0.5] * 15, *[0.3] * 10)
    assert within_runs.late_fall(flat) == pytest.approx(0)
    assert within_runs.late_fall(falling) == pytest.approx(0.2)
    curve = {"accuracy": [[2, 0.5], [4, 0.5], [6, 0.5], [8, 0.5], [10, 0.5], [11, 0.0], [12, 0.5]]}
    thin = Cell("", {"curve": curve | {side: [] for side in SIDES}})
    assert within_runs.late_fall(thin) == pytest.approx(0)  # round 11 has no partner before
    cells = {("elr", "iid"): lambda _: falling, ("flr", "iid"): lambda _: flat}
    elr_flr = within_runs.falls_late(outcome("fig-curves", cells))[0]
    assert elr_flr.numbers.startswith("best ten rounds minus the last ten: ELR less FLR: +20.0")
    assert elr_flr.verdict == "holds"


def test_jumps_are_not_smooth():
    runs = {("fedavg", "iid"): memory(server=(0.3, 0.6, 0.2)), ("flr", "iid"): memory()}
    (found,) = within_runs.is_smoother(outcome("table-memorization", runs))
    assert found.verdict == "holds"


@pytest.mark.parametrize(("skewed", "verdict"), [(0.70, "holds"), (0.41, "contradicted")])
def test_the_lead_grows_with_the_skew(skewed, verdict):
    level = "0.0-0.8"
    runs = {
        ("fedavg", f"dir1-{level}"): accuracy(0.40),
        ("flr", f"dir1-{level}"): accuracy(skewed),
        ("fedavg", f"dir10-{level}"): accuracy(0.50),
        ("flr", f"dir10-{level}"): accuracy(0.60),
    }
    found = outcome("fig-dirichlet", runs)
    assert verdict in [line.verdict for line in across_runs.lead_grows(found)]
    skewed_lines = [line for line in across_runs.skew_costs(found) if line.seeds]
    costs = {line.numbers.partition(",")[0]: line.verdict for line in skewed_lines}
    assert costs == {"FedAvg": "holds", "FLR": "contradicted" if skewed > 0.6 else "holds"}


@pytest.mark.parametrize(("noisy", "verdict"), [(0.40, "holds"), (0.60, "contradicted")])
def test_what_noise_costs(noisy, verdict):
    runs = {("fedavg", "clean"): accuracy(0.5), ("fedavg", "asym-0.4-0.6"): accuracy(noisy, noisy)}
    lines = across_runs.noise_costs(outcome("table-cifar100", runs))
    assert [line.verdict for line in lines] == (
        ["not run"] * 4 + [verdict]
    ) * 2  # at best, and late


@pytest.mark.parametrize(("late", "verdict"), [(0.55, "holds"), (0.45, "contradicted")])
def test_a_late_lead_is_one_of_the_last_ten_rounds(late, verdict):
    names = ("table-cifar100", "fig-server-aware", "fig-dirichlet")
    found = {name: outcome(name, {})[name] for name in names}
    runs = {("fedavg", "worst"): accuracy(0.60), ("flr", "worst"): accuracy(0.60, late)}
    lines = across_runs.leads_late(found | outcome("fig-cifar10n", runs))
    assert [line.verdict for line in lines if line.seeds] == [verdict]


@pytest.mark.parametrize(("elr", "verdict"), [(0.45, "holds"), (0.55, "contradicted")])
def test_flr_plus_is_compared_with_every_other_row_of_the_paper(elr, verdict):
    runs = {
        ("flr-plus", "worst"): accuracy(0.50),
        ("fedavg", "worst"): accuracy(0.40),
        ("elr", "worst"): lambda _: cell(best=elr),
        ("flr-2", "worst"): accuracy(0.90),  # ours
    }
    names = ("table-cifar100", "table-clothing1m")
    found = {name: outcome(name, {})[name] for name in names} | outcome("fig-cifar10n", runs)
    (line,) = [line for line in across_runs.plus_is_best(found) if line.seeds]
    assert line.verdict == verdict
    assert line.numbers.startswith("FLR+ minus ELR, the best of 2 others")


def test_a_lag_behind_one_of_many_has_to_be_surer():
    behind, ahead = [-0.01, -0.02, -0.012], [0.3, 0.31, 0.32]
    assert across_runs.best_of_all([behind]) == "contradicted"
    assert across_runs.best_of_all([behind, *[ahead] * 9]) == "leans against"
    assert across_runs.best_of_all([[0.1], [0.2]]) == "leans that way"  # one seed


@pytest.mark.parametrize(("federated", "verdict"), [(0.41, "holds"), (0.60, "contradicted")])
def test_dividemix_is_judged_by_its_lead_over_ce(federated, verdict):
    runs = {
        ("central-ce", "asym-0.4-0.6"): accuracy(0.50),
        ("central-dividemix", "asym-0.4-0.6"): lambda seed: cell(best=0.60 + seed / 500),
        ("fedavg", "asym-0.4-0.6"): accuracy(0.40),
        ("dividemix", "asym-0.4-0.6"): accuracy(federated),
    }
    lines = across_runs.advantage_is_lost(outcome("table-cifar100", runs))
    assert [line.verdict for line in lines if line.seeds] == [verdict]


@pytest.mark.parametrize(
    ("places", "some", "verdict"),
    [
        ([], False, "not run yet"),
        ([("not run", 0)], False, "not run yet"),
        ([("holds", 3), ("leans that way", 3)], False, "holds"),
        ([("holds", 3), ("not run", 0)], False, "not decidable at this scale"),
        ([("holds", 3), ("leans against", 1)], False, "not decidable at this scale"),
        ([("holds", 3), ("contradicted", 3)], False, "does not hold"),
        ([("holds", 3), ("contradicted", 3)], True, "holds"),
        ([("leans that way", 3), ("contradicted", 3)], True, "not decidable at this scale"),
        ([("contradicted", 3), ("contradicted", 3)], True, "does not hold"),
        ([("leans that way", 1), ("leans against", 1)], False, "not decided: one seed"),
    ],
)
def test_one_word_for_all_places(places, some, verdict):
    lines = [Line("", "", "", said, n) for said, n in places]
    assert claims.overall(lines, some) == verdict


def test_every_part_of_a_claim_has_to_hold():
    lines = [Line("", *part, 3) for part in (("a", "", "holds"), ("b", "", "leans that way"))]
    assert claims.overall(lines) == "not decidable at this scale"
    assert claims.overall([*lines, Line("", "b", "", "holds", 3)]) == "holds"
