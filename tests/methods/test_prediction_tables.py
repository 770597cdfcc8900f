"""How rows of probabilities are stored: what comes back, what it takes, what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flr
from flr.core.arrays import nbytes
from flr.methods.shared.prediction_tables import (
    MOST_CLASSES,
    PredictionTable,
    TableFormat,
    largest,
    whole,
)

FORMS = [
    TableFormat(),
    TableFormat(torch.float16),
    TableFormat(top_k=3),
    TableFormat(torch.float16, top_k=3),
    TableFormat(torch.float16, top_k=99),
]


def rows(n: int, classes: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(n, classes, generator=generator)).softmax(1)


def label(form: TableFormat) -> str:
    return str(form)


def test_whole_rows_in_float32_come_back_bit_for_bit():
    table, p, index = PredictionTable(9, 10, TableFormat()), rows(4, 10), torch.tensor([7, 2, 0, 5])
    table[index] = p
    assert torch.equal(table[index], p)
    assert table.values[1].count_nonzero() == 0


def test_a_row_by_hand():
    p = torch.tensor([[0.05, 0.6, 0.02, 0.3, 0.03]])
    values, classes = largest(p, 2)
    assert classes.tolist() == [[1, 3]]
    expected = torch.tensor([[0.1 / 3, 0.6, 0.1 / 3, 0.3, 0.1 / 3]])
    torch.testing.assert_close(whole(values, classes, 5), expected)


def test_what_rounding_has_added_is_taken_from_the_entries():
    values = torch.tensor([[0.9, 0.15]])
    expected = torch.tensor([[0.15 / 1.05, 0.0, 0.9 / 1.05]])
    torch.testing.assert_close(whole(values, torch.tensor([[2, 0]]), 3), expected)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(2, 40),
    st.sampled_from([torch.float32, torch.float16]),
    st.integers(0, 999),
)
def test_a_sparse_row_is_a_distribution_with_the_same_largest_entries(k, classes, dtype, seed):
    table, p = PredictionTable(5, classes, TableFormat(dtype, k)), rows(5, classes, seed)
    table[torch.arange(5)] = p
    back = table[torch.arange(5)]
    torch.testing.assert_close(back.sum(1), torch.ones(5))
    assert back.min() >= 0
    values, numbers = largest(p, min(k, classes))
    torch.testing.assert_close(back.gather(1, numbers), values, rtol=3e-3, atol=1e-3)


@pytest.mark.parametrize("classes", [4, 10, 100])
def test_half_precision_is_off_by_the_last_of_eleven_bits(classes):
    table, p = PredictionTable(50, classes, TableFormat(torch.float16)), rows(50, classes)
    table[torch.arange(50)] = p
    back = table[torch.arange(50)]
    assert back.dtype == torch.float32
    torch.testing.assert_close(back, p, rtol=2**-11, atol=2**-25)


def test_more_entries_than_classes_are_all_classes():
    table, p = PredictionTable(6, 4, TableFormat(top_k=9)), rows(6, 4)
    table[torch.arange(6)] = p
    assert table.values.shape == (6, 4)
    torch.testing.assert_close(table[torch.arange(6)], p)


def test_a_thousand_classes_and_a_million_samples_need_a_hundredth():
    """Counted on few samples: the bytes grow by the samples alone."""
    few, million, k = 100, 1_000_000, 10

    def bytes_needed(**form) -> int:
        return nbytes(flr.LabelMixture(few, 1_000, **form).tables()) * (million // few)

    flags = million
    assert bytes_needed() == 8_000_000_000 + flags
    assert bytes_needed(dtype=torch.float16) == 4_000_000_000 + flags
    assert bytes_needed(top_k=k) == 2 * million * k * (4 + 2) + flags
    assert bytes_needed(dtype=torch.float16, top_k=k) == 2 * million * k * (2 + 2) + flags
    assert bytes_needed(dtype=torch.float16, top_k=k) < 8_000_000_000 / 98


def test_more_classes_than_can_be_numbered_are_refused():
    PredictionTable(1, MOST_CLASSES, TableFormat(top_k=2))[torch.tensor([0])] = rows(
        1, MOST_CLASSES
    )
    with pytest.raises(ValueError, match=r"at most 32,768 classes .* got 32,769\. Leave top_k out"):
        PredictionTable(1, MOST_CLASSES + 1, TableFormat(top_k=2))


def test_the_last_class_that_has_a_number_is_found_again():
    table, p = PredictionTable(1, MOST_CLASSES, TableFormat(top_k=1)), torch.zeros(1, MOST_CLASSES)
    p[0, -1] = 1
    table[torch.tensor([0])] = p
    assert torch.equal(table[torch.tensor([0])], p)


def visited(form: TableFormat) -> flr.LabelMixture:
    """Tables of 8 samples and 6 classes after two visits, with every average on."""
    module = flr.LabelMixture(8, 6, dtype=form.dtype, top_k=form.top_k)
    generator = torch.Generator().manual_seed(4)
    for index in (torch.tensor([3, 1, 6]), torch.tensor([1, 0])):
        z, server = torch.randn(2, len(index), 6, generator=generator)
        module(z, server, index)
    return module


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_tables_round_trip_in_every_form(form):
    first = visited(form)
    second = flr.LabelMixture(8, 6, dtype=form.dtype, top_k=form.top_k)
    second.load_tables(first.tables())
    assert first.tables().keys() == second.tables().keys()
    assert all(torch.equal(a, second.tables()[name]) for name, a in first.tables().items())
    z, server = torch.randn(2, 2, 6)
    index = torch.tensor([1, 7])
    assert torch.equal(first(z, server, index), second(z, server, index))


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_what_is_declared_is_what_there_is(form):
    declared = form.declared("s", "average") + form.declared("m", "average")
    sizes = {"samples": 8, "classes": 100}
    arrays = flr.LabelMixture(8, 100, dtype=form.dtype, top_k=form.top_k).tables()
    del arrays["seen"]
    assert {d.name: (d.size(sizes), d.dtype) for d in declared} == {
        name: (tuple(a.shape), a.dtype) for name, a in arrays.items()
    }


@pytest.mark.parametrize("mine", FORMS, ids=label)
@pytest.mark.parametrize("theirs", FORMS, ids=label)
def test_another_form_is_refused_and_nothing_is_taken_over(mine, theirs):
    if mine == theirs:
        return
    module = flr.LabelMixture(8, 6, dtype=mine.dtype, top_k=mine.top_k)
    with pytest.raises(ValueError, match=r"^Expected .*; got .*start with new ones\.$"):
        module.load_tables(visited(theirs).tables())
    assert not any(a.count_nonzero() for a in module.tables().values())


@pytest.mark.parametrize("form", FORMS, ids=label)
def test_no_form_slips_into_a_state_dict(form):
    assert not visited(form).state_dict()


@pytest.mark.parametrize(
    ("form", "tolerance"),
    [
        (TableFormat(torch.float16), 2e-3),
        (TableFormat(top_k=6), 1e-5),
        (TableFormat(torch.float16, 5), 3e-3),
    ],
    ids=str,
)
def test_over_many_visits_the_targets_stay_near_those_of_whole_rows(form, tolerance):
    """Rounding does not add up: each visit forgets a part of it."""
    exact = flr.LabelMixture(4, 6)
    stored = flr.LabelMixture(4, 6, dtype=form.dtype, top_k=form.top_k)
    index = torch.arange(4)
    for visit in range(200):
        p, p_srv = rows(4, 6, visit), rows(4, 6, 1000 + visit)
        t = exact.update(p, p_srv, index)
        torch.testing.assert_close(stored.update(p, p_srv, index), t, rtol=0, atol=tolerance)


def test_the_term_stays_finite_where_rounding_meets_a_certain_prediction():
    """0.9999 is 1 in float16; <p, t> must still be below 1."""
    for classes in (2, 3, 10):
        module = flr.LabelMixture(1, classes, dtype=torch.float16)
        sure = torch.zeros(1, classes)
        sure[0, 0] = 100.0
        for _ in range(5):
            assert module(sure, sure, torch.tensor([0])).isfinite()


def test_a_whole_round_of_known_samples_is_as_one_of_unknown():
    """`schedule` notes that all were seen, which spares a look at each; the values are the same."""
    first, second = flr.LabelMixture(4, 6), flr.LabelMixture(4, 6)
    for module in (first, second):
        module.update(rows(4, 6), rows(4, 6, 2), torch.arange(4))
        module.schedule(9, 10)
    assert first.all_seen
    second.all_seen = False
    now = (rows(2, 6, 3), rows(2, 6, 4), torch.tensor([2, 0]))
    assert torch.equal(first.update(*now), second.update(*now))
    assert all(torch.equal(a, second.tables()[name]) for name, a in first.tables().items())
