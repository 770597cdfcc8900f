"""Which labels are held out: drawn once for a scenario, from a seed of their own."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flr.scenario.validation import count, drawn, held_out


@given(samples=st.integers(1, 200), share=st.floats(0, 0.5))
@settings(max_examples=50, deadline=None)
def test_a_site_holds_out_its_share_and_trains_on_the_rest(samples: int, share: float) -> None:
    found = count(samples, share)
    assert 0 <= found < samples
    assert abs(found - share * samples) <= 0.5 or found == samples - 1
    assert int(drawn(samples, share, 1, 0).sum()) == found


def test_sites_are_independent_of_each_other() -> None:
    alone, among = held_out([40], 0.25, 7), held_out([40, 90, 40], 0.25, 7)
    assert alone.equal(among[:40])
    assert not among[:40].equal(among[-40:])
    assert int(among.sum()) == 10 + 23 + 10


def test_another_seed_holds_out_others_and_no_share_holds_out_none() -> None:
    assert not held_out([200], 0.1, 1).equal(held_out([200], 0.1, 2))
    assert held_out([200], 0.1, 1).equal(held_out([200], 0.1, 1))
    assert not held_out([3, 4], 0.0, 1).any()
