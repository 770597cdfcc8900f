"""The rule of docs/explanation/verdicts.md, on made-up differences with known answers."""

from __future__ import annotations

from statistics import fmean

import pytest
from scipy import stats

from flr.paper.claims.judgement import Place, last_ten
from flr.paper.claims.rule import (
    LEVEL,
    Spread,
    by_papers_measure,
    effect,
    family,
    holm,
    judge,
    pooled,
    unready,
)

SURE, AGAINST, OPEN = (0.05, 0.051, 0.049), (-0.05, -0.051, -0.049), (0.05, -0.04, 0.03)


def place(values=SURE, part="a beats b", planned=None, papers=None, **changes):
    """Differences of the seeds from 1 on; None is a run that is missing."""
    found = {seed: value for seed, value in enumerate(values, 1) if value is not None}
    seeds = frozenset(range(1, (planned or len(values)) + 1))
    return Place("here", part, found, seeds, papers or found, **changes)


def told(*places):
    return judge(places).verdict


# ---- one place


@pytest.mark.parametrize(
    ("values", "margin", "verdict"),
    [
        (SURE, None, "holds"),
        ((0.0050, 0.0051, 0.0049), None, "holds"),  # also by less than a point
        (AGAINST, None, "does not hold"),
        ((0.0, 0.0, 0.0), None, "does not hold"),  # a difference of nothing is no lead
        ((0.001, -0.001, 0.0), None, "does not hold"),  # surely less than a point
        (OPEN, None, "undecided"),
        ((0.001, -0.001, 0.0), 0.01, "holds"),
        (SURE, 0.01, "does not hold"),
        (AGAINST, 0.01, "does not hold"),
        (OPEN, 0.01, "undecided"),
        ((0.0, 0.0, 0.0), 0.01, "holds"),
    ],
)
def test_a_place_by_its_interval(values, margin, verdict):
    (judged,) = family([place(values, margin=margin)])
    assert judged.verdict == verdict
    assert told(place(values, margin=margin)) == verdict


def test_a_place_alone_has_the_plain_interval():
    (judged,) = family([place(OPEN)])
    half = stats.t.ppf(0.975, 2) * stats.sem(OPEN)
    assert judged.low == pytest.approx(fmean(OPEN) - half)
    assert judged.high == pytest.approx(fmean(OPEN) + half)


# ---- Holm


@pytest.mark.parametrize(
    ("chances", "steps"),
    [
        ((0.001, 0.010, 0.020), (3, 2, 1)),  # 0.0083, 0.0125, 0.025: all are rejected
        ((0.020, 0.001, 0.010), (1, 3, 2)),  # in whatever order they come
        ((0.001, 0.020, 0.021), (3, 2, 2)),  # 0.020 > 0.0125: the third is not tested
        ((0.009, 0.0001, 0.024), (2, 3, 1)),
        ((0.009, 0.010, 0.011), (3, 3, 3)),  # 0.009 > 0.0083: none
    ],
)
def test_holm_of_three_by_hand(chances, steps):
    levels = holm(chances)
    assert levels == pytest.approx([LEVEL / step for step in steps])


def test_the_corrected_interval_says_what_the_tests_say():
    """Three places with chances of about 0.004, 0.01 and 0.02: all hold, the last just so."""
    wanted = (0.004, 0.010, 0.020)
    places = [place(with_chance(chance)) for chance in wanted]
    judged = family(places)
    assert [found.verdict for found in judged] == ["holds"] * 3
    for found, level in zip(judged, (LEVEL / 3, LEVEL / 2, LEVEL), strict=True):
        error = stats.sem(list(found.place.differences.values()))
        assert found.low == pytest.approx(found.mean - stats.t.ppf(1 - level, 2) * error)
        assert found.low > 0
    first_fails = family([place(with_chance(chance)) for chance in (0.009, 0.010, 0.020)])
    assert [found.verdict for found in first_fails] == ["undecided"] * 3
    assert all(found.low < 0 for found in first_fails)


def with_chance(chance: float) -> list[float]:
    """Three differences whose one-sided t-test against 0 gives this; not surely below a point."""
    shape = (-0.01, 0.0, 0.01)
    mean = stats.t.ppf(1 - chance, 2) * stats.sem(shape)
    return [mean + value for value in shape]


def test_both_directions_are_corrected_each_for_itself():
    sure, against, third = family([place(SURE), place(AGAINST), place(OPEN)])
    assert (sure.verdict, against.verdict, third.verdict) == (
        "holds",
        "does not hold",
        "undecided",
    )
    widest = stats.t.ppf(1 - LEVEL / 3, 2) * stats.sem(SURE)  # each is the first of its direction
    assert sure.mean - sure.low == pytest.approx(widest)
    assert against.high - against.mean == pytest.approx(widest)
    assert Spread(0.02, 0.01, 3).above(0) == Spread(-0.01, 0.01, 3).below(0.01)


# ---- a claim


@pytest.mark.parametrize(
    ("places", "verdict"),
    [
        ([place(), place()], "holds"),
        ([place(), place(OPEN)], "undecided"),
        ([place(), place(AGAINST)], "does not hold"),
        ([place(AGAINST, some=True), place(some=True)], "holds"),
        ([place(AGAINST, some=True), place(OPEN, some=True)], "undecided"),
        ([place(AGAINST, some=True), place(AGAINST, some=True)], "does not hold"),
        ([place(), place(some=True), place(AGAINST, some=True)], "holds"),
        ([place(), place(AGAINST, some=True)], "does not hold"),
        ([place(AGAINST), place(some=True)], "does not hold"),
    ],
)
def test_a_claim_of_several_places(places, verdict):
    assert told(*places) == verdict


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ([place((), planned=5)], "not run"),
        ([place((0.05, None, 0.05)), place()], "2 of 3 seeds"),
        ([place(), place((0.05,), planned=3)], "1 of 3 seeds"),
        ([place(), place((), planned=3)], "0 of 3 seeds"),
        ([place((0.05,)), place((0.04,))], "one seed"),
        ([place((0.05,)), place()], "one seed in 1 of 2 places"),
    ],
)
def test_what_is_half_there_is_not_judged(places, why):
    judged = judge(places)
    assert (judged.verdict, judged.why) == ("undecided", why)
    assert all(found.low is None and found.verdict == "undecided" for found in judged.places)
    assert judged.effect.half is None
    assert not unready([place(), place()])


# ---- leans, pooled


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [(8, 0, "holds"), (7, 0, None), (0, 8, "does not hold"), (11, 1, "holds"), (10, 2, None)],
)
def test_signs_are_pooled_where_chance_has_one_percent(right, wrong, verdict):
    """2 / 2^8 is 0.0078, 2 / 2^7 0.0156; of twelve 2 * 13 / 2^12 is 0.0063."""
    found = pooled(
        [
            place(
                [0.01] * right + [-0.001] * wrong
                if verdict != "does not hold"
                else [0.001] * right + [-0.01] * wrong
            )
        ]
    )
    assert (found and found[0]) == verdict


def test_a_difference_of_nothing_has_no_sign():
    assert pooled([place([0.01] * 7 + [0.0] * 5)]) is None
    assert pooled([place([0.01] * 8 + [0.0] * 5)]) is not None


def test_every_part_has_to_be_on_that_side_in_the_mean():
    most, few = place([0.01] * 20), place([0.001, -0.03], part="a beats c")
    assert pooled([most, few]) is None
    assert pooled([most, place([0.03, -0.001], part="a beats c")]) is not None


def test_leans_of_many_places_decide_what_none_of_them_does():
    lean = (0.001, 0.03, 0.08)
    assert told(*[place(lean)] * 2) == "undecided"
    judged = judge([place(lean)] * 3)
    assert (judged.verdict, judged.why) == ("holds", "by signs: 9 of 9 for the paper")
    assert {found.verdict for found in judged.places} == {"undecided"}


# ---- how large


def test_the_effect_is_the_mean_over_places_seed_by_seed():
    one, other = place((0.02, 0.04, 0.06)), place((0.00, 0.02, 0.01))
    found = effect([one, other])
    assert found.mean == pytest.approx(0.025)
    assert found.half == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem([0.01, 0.03, 0.035]))
    assert effect([one, place((0.1, None, 0.2))]).n == 2


def test_of_likeness_the_difference_is_the_margin_less_the_distance():
    found = place((0.002, -0.004, 0.012), margin=0.01)
    assert list(found.leads.values()) == pytest.approx([0.008, 0.006, -0.002])


# ---- measures


@pytest.mark.parametrize(
    ("papers", "ours"),
    [
        ("accuracy.best", "accuracy.last10"),
        ("accuracy.last", "accuracy.last10"),
        ("memorization.server.noisy_correct", "memorization.last10.server.noisy_correct"),
    ],
)
def test_what_is_judged_is_the_mean_of_the_last_ten(papers, ours):
    assert last_ten(papers) == ours


def test_the_papers_measure_stands_beside_and_decides_nothing():
    found = [place(SURE, papers=dict(enumerate(AGAINST, 1)))]
    assert judge(found).verdict == "holds"
    beside = by_papers_measure(found)
    assert beside is not None
    assert beside.verdict == "does not hold"
    assert by_papers_measure([place()]) is None
