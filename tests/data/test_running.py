"""Running statistics: against plain sums, and the same bits for one series and for many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nystream.data.running import advance, in_units, no_rows, over_rows


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    columns=st.integers(1, 3),
    limit=st.sampled_from([2, 7, 100]),
    seed=st.integers(0, 1000),
)
def test_all_rows_at_once_are_bitwise_one_by_one(lengths, columns, limit, seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=(sum(lengths), columns)) * 10.0 ** random.integers(-3, 9, columns)
    starts = np.cumsum(lengths) - lengths
    every = over_rows(values, starts.tolist(), limit)
    for start, length in zip(starts, lengths, strict=True):
        running = no_rows(columns)
        for row in range(start, start + length):
            running = advance(running, values[row], limit)
            for part, expected in zip(every, running, strict=True):
                assert part[row].tobytes() == expected.tobytes()


def test_up_to_the_limit_they_are_mean_and_deviation_of_all_rows():
    values = 1e6 + np.random.default_rng(0).normal(size=(50, 2))
    every = over_rows(values, [0], 50)
    for row in range(50):
        np.testing.assert_allclose(every.mean[row], values[: row + 1].mean(0), rtol=1e-14)
        # Cancellation at a mean of 1e6 costs 6 of 16 digits, so 1e-9 is far above rounding.
        np.testing.assert_allclose(every.std[row], values[: row + 1].std(0), rtol=1e-9, atol=1e-9)
    assert every.seen.tolist() == list(range(1, 51))


def test_after_the_limit_old_rows_are_forgotten():
    values = np.concatenate([np.random.default_rng(0).normal(0, 1, 2000), np.random.default_rng(1).normal(50, 5, 2000)])
    after = over_rows(values[:, None], [0], 100).at(-1)
    assert after.seen == 100
    assert after.mean[0] == pytest.approx(50, abs=2)
    assert after.std[0] == pytest.approx(5, rel=0.2)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40), st.integers(2, 20))
def test_no_row_is_far_from_the_mean_in_units_of_the_deviation(values, limit):
    column = np.array(values)[:, None]
    every = over_rows(column, [0], limit)
    assert (every.variance >= 0).all()
    units = in_units(column - every.mean, every.std)
    assert (np.abs(units[:, 0]) <= np.sqrt(np.maximum(every.seen - 1, 0)) * (1 + 1e-6) + 1e-6).all()


def test_a_constant_series_has_no_units_and_a_number_too_large_to_square_is_rejected():
    constant = over_rows(np.full((5, 1), 0.1), [0], 10)
    assert constant.std.tolist() == [[0.0]] * 5
    assert in_units(np.ones((5, 1)), constant.std).tolist() == [[0.0]] * 5
    large = over_rows(np.array([[0.0], [1e200]]), [0], 10)
    assert in_units(np.ones((2, 1)), large.std).tolist() == [[0.0], [np.inf]]
