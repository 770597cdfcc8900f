"""Claims within runs and across settings: made-up cells with a known answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flr.core.errors import ConfigError
from flr.paper.claims import across_runs, stated, within_runs
from flr.paper.claims.judgement import Place
from flr.paper.claims.rule import judge
from flr.paper.claims.stated import StatedClaim
from flr.paper.experiment import load
from flr.paper.figures import forest
from flr.paper.pages import claims as page
from flr.report.memorization import KEYS
from flr.report.summary import SIDES
from flr.study.experiment import Coordinates
from flr.study.experiment_results import ExperimentResults
from flr.study.results import Cell
from flr.study.runner import Runner

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
    memorization = {**last, "last10": last}
    summary = {
        "accuracy": {"best": best, "last": 0.5, "last10": late},
        "memorization": memorization,
    }
    return Cell("", {"curve": curve, "summary": summary})


def outcome(name: str, cells: Mapping[tuple[str, str], Any]) -> dict[str, ExperimentResults]:
    """Every seed alike but for a hundredth, so that intervals are narrow."""
    found = {
        Coordinates(row, setting, seed): make(seed)
        for (row, setting), make in cells.items()
        for seed in SEEDS
    }
    return {name: ExperimentResults(load(name), SEEDS, {}, found, Runner(Path()))}


def accuracy(value: float, best: float = 0.5) -> Any:
    return lambda seed: cell(best=best, late=value + seed / 1000)


def verdicts(places: Iterable[Place]) -> list[str]:
    """Of each place alone."""
    judged = [judge([place]) for place in places]
    return [found.verdict if found.run else found.why for found in judged]


def run(places: Iterable[Place]) -> list[Place]:
    return [place for place in places if place.differences]


def memory(**shares: tuple[float, float, float]) -> Any:
    return lambda seed: cell(shares={s: (a, b, c + seed / 1e4) for s, (a, b, c) in shares.items()})


@pytest.mark.parametrize(("server", "verdict"), [(0.9, "holds"), (0.1, "does not hold")])
def test_the_server_is_slower_when_it_sees_through_more(server, verdict):
    runs = memory(server=(server,) * 3, client=(0.5, 0.5, 0.5))
    found = outcome("table-memorization", {("fedavg", "iid"): runs})
    assert verdicts(within_runs.server_is_slower(found)) == ["not run", verdict]


@pytest.mark.parametrize(("share", "verdict"), [(0.95, "holds"), (0.7, "does not hold")])
def test_ten_percent_is_a_bound_on_every_round(share, verdict):
    runs = memory(server=(0.95, share, 0.95), client_noisy=(0.95, share, 0.95))
    found = outcome("table-memorization", {("flr", "iid"): runs})
    assert verdicts(within_runs.stays_below_ten(found)) == [verdict] * 2


def test_all_is_95_percent_of_the_last_ten_rounds_or_in_the_paper_of_the_last():
    found = outcome("table-memorization", {("fedavg", "iid"): memory(client_noisy=(0, 0, 0.02))})
    (place,) = within_runs.clients_memorize_all(found)
    assert verdicts([place]) == ["holds"]
    assert place.differences == pytest.approx({1: 0.0299, 2: 0.0298, 3: 0.0297})
    assert place.papers == place.differences  # made-up cells have one for both


@pytest.mark.parametrize("rounds", [50, 60, 150])
@pytest.mark.parametrize(("late", "verdict"), [(0.2, "holds"), (0.7, "does not hold")])
def test_early_rounds_are_shares_of_all_and_no_peak_is_picked(rounds, late, verdict):
    def curve(seed: int) -> Cell:
        seen = {0.2: 0.3, 0.5: 0.6, 0.7: 0.4, 0.8: 0.9, 0.9: late, 1.0: late + seed / 1e4}
        points = [[round(at * rounds), 1.0, 0.0, v, 0.0, 1 - v] for at, v in seen.items()]
        return Cell("", {"curve": {"accuracy": [], **dict.fromkeys(SIDES, points)}})

    found = outcome("table-memorization", {("fedavg", "iid"): curve}) | outcome("fig-longer", {})
    early, rise, fall, *longer = within_runs.learns_then_memorizes(found)
    assert early.differences[1] == pytest.approx(0.5 - late, abs=1e-3)
    assert verdicts([early, rise]) == [verdict, "holds" if late < 0.3 else "does not hold"]
    assert set(fall.differences.values()) == {0.0}
    assert verdicts(longer) == ["not run"] * 3


@pytest.mark.parametrize(("rounds", "measured"), [(50, (5, 10, 20)), (60, (5, 10, 25))])
def test_the_bend_is_where_the_warm_up_ends_at_every_scale(rounds, measured):
    points = {number: float(number) for number in (*range(5, rounds - 9, 5), rounds)}
    assert within_runs.nearest(points, within_runs.BEND) == [(n, float(n)) for n in measured]


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
    elr_flr = next(within_runs.falls_late(outcome("fig-curves", cells)))
    assert elr_flr.part == "best ten rounds minus the last ten: ELR less FLR"
    assert elr_flr.differences[1] == pytest.approx(0.2)


def test_jumps_are_not_smooth():
    runs = {("fedavg", "iid"): memory(server=(0.3, 0.6, 0.2)), ("flr", "iid"): memory()}
    found = outcome("table-memorization", runs)
    assert verdicts(within_runs.is_smoother(found)) == ["holds"]


@pytest.mark.parametrize(("skewed", "verdict"), [(0.70, "holds"), (0.41, "does not hold")])
def test_the_lead_grows_with_the_skew(skewed, verdict):
    level = "0.0-0.8"
    runs = {
        ("fedavg", f"dir1-{level}"): accuracy(0.40),
        ("flr", f"dir1-{level}"): accuracy(skewed),
        ("fedavg", f"dir10-{level}"): accuracy(0.50),
        ("flr", f"dir10-{level}"): accuracy(0.60),
    }
    found = outcome("fig-dirichlet", runs)
    assert verdicts(run(across_runs.lead_grows(found))) == [verdict]
    costs = {
        p.part.partition(",")[0]: judge([p]).verdict for p in run(across_runs.skew_costs(found))
    }
    assert costs == {"FedAvg": "holds", "FLR": "does not hold" if skewed > 0.6 else "holds"}


@pytest.mark.parametrize(("noisy", "verdict"), [(0.40, "holds"), (0.60, "does not hold")])
def test_what_noise_costs(noisy, verdict):
    runs = {("fedavg", "clean"): accuracy(0.5), ("fedavg", "asym-0.4-0.6"): accuracy(noisy)}
    places = run(across_runs.noise_costs(outcome("table-cifar100", runs)))
    assert verdicts(places) == [verdict]
    assert set(places[0].papers.values()) == {0.0}  # at best it costs nothing


@pytest.mark.parametrize(("late", "verdict"), [(0.65, "holds"), (0.55, "does not hold")])
def test_a_late_lead_is_one_of_the_last_ten_rounds(late, verdict):
    runs = {("fedavg", "worst"): accuracy(0.60), ("flr", "worst"): accuracy(late, best=0.9)}
    assert verdicts(run(across_runs.leads_late(outcome("fig-cifar10n", runs)))) == [verdict]


def test_flr_plus_is_compared_with_every_other_row_of_the_paper():
    runs = {
        ("flr-plus", "worst"): accuracy(0.50),
        ("fedavg", "worst"): accuracy(0.40),
        ("elr", "worst"): accuracy(0.55),
        ("flr-2", "worst"): accuracy(0.90),  # ours
    }
    places = run(across_runs.plus_is_best(outcome("fig-cifar10n", runs)))
    found = {place.part: judge([place]).verdict for place in places}
    assert found == {"FLR+ minus FedAvg": "holds", "FLR+ minus ELR": "does not hold"}


def test_without_noise_one_method_that_is_better_than_flr_plus_is_enough():
    better = {"fedavg": 0.40, "elr": 0.55}
    runs = {(row, "clean"): accuracy(value) for row, value in better.items()}
    found = outcome("table-cifar100", runs | {("flr-plus", "clean"): accuracy(0.50)})
    places = run(across_runs.plus_is_best(found))
    assert all(place.some for place in places)
    assert sorted(verdicts(places)) == ["does not hold", "holds"]
    assert judge(places).verdict == "holds"


@pytest.mark.parametrize(("federated", "verdict"), [(0.41, "holds"), (0.60, "does not hold")])
def test_dividemix_is_judged_by_its_lead_over_ce(federated, verdict):
    runs = {
        ("central-ce", "asym-0.4-0.6"): accuracy(0.50),
        ("central-dividemix", "asym-0.4-0.6"): accuracy(0.60),
        ("fedavg", "asym-0.4-0.6"): accuracy(0.40),
        ("dividemix", "asym-0.4-0.6"): accuracy(federated),
    }
    (place,) = run(across_runs.advantage_is_lost(outcome("table-cifar100", runs)))
    assert place.planned == {1}  # DivideMix has one seed on a laptop
    assert verdicts([replace(place, planned=frozenset(SEEDS))]) == [verdict]


# ---- claims at scales


MIXTURE = StatedClaim(
    "The mixture is better", [("table-memorization", "The mixture is more accurate than the l")]
)


@pytest.fixture
def scaled():
    """Whole on a laptop, with a column missing on features, and with nothing at middle scale."""
    pair = {"flr": accuracy(0.6), "local": accuracy(0.5)}
    one = {(row, "iid"): make for row, make in pair.items()}
    both = one | {(row, "noniid"): make for row, make in pair.items()}
    found = {
        "laptop": outcome("table-memorization", both),
        "features": outcome("table-memorization", one),
        "middle": outcome("table-memorization", {}),
    }
    return stated.at_scales([MIXTURE], found | {"paper": {}})  # which has no such table


def test_a_claim_is_judged_where_a_scale_has_a_table_for_it(scaled):
    assert [each.scale for each in scaled] == ["laptop", "features", "middle"]
    found = [(each.judged.verdict, each.judged.why) for each in scaled]
    assert found[0] == ("holds", "holds in 2 of 2 places")
    assert found[1:] == [("undecided", "0 of 3 seeds"), ("undecided", "not run")]
    assert scaled[0].papers is not None
    assert scaled[0].papers.verdict == "does not hold"  # the last rounds of these cells are equal


def test_what_the_page_says_of_each_scale(scaled):
    assert [page.said(each) for each in (*scaled, None)] == [
        "**holds**, +10.0 ± 0.0",
        "undecided: 0 of 3 seeds",
        "not run",
        "–",
    ]
    counted = [page.tally([each]) for each in scaled]
    kinds = ("holds", "unready", "not run")
    assert [tally[kind] for tally, kind in zip(counted, kinds, strict=True)] == [1, 1, 1]
    (first, *_) = page.rows({each.scale: each for each in scaled})
    assert first[2:] == ["+10.0 [+10.0, +10.0], n = 3: holds", "–"]


def test_the_picture_has_a_column_for_each_scale_with_runs(scaled):
    columns = forest.draw(scaled).axes
    assert [axes.get_title() for axes in columns] == ["laptop", "features"]
    (point,) = (line for line in columns[0].lines if line.get_marker() == "o")
    assert list(point.get_xdata()) == pytest.approx([10.0])


def test_the_same_for_programs(scaled):
    told, *later = stated.as_json(scaled)
    assert (told["claim"], told["scale"]) == ("The mixture is better", "laptop")
    assert (told["verdict"], told["seeds"]) == ("holds", [1, 2, 3])
    assert told["effect"] == {"mean": 10.0, "low": 10.0, "high": 10.0}
    assert [place["verdict"] for place in told["places"]] == ["holds", "holds"]
    assert told["papers_measure"]["verdict"] == "does not hold"
    assert [each["seeds"] for each in later] == [[], []]
    assert later[1]["places"] == []


def test_a_test_without_a_claim_is_refused():
    with pytest.raises(ConfigError, match="begins with 'The moon', as stated"):
        stated.tested({}, "table-memorization", "The moon")
