"""Lags and harmonics that suit the step between rows and the horizon."""

import pytest

from nystream.data.lags import MAX_LAG, MAX_NUMBERS, choose_lags, harmonics


def test_a_day_and_a_week_before_the_forecast():
    lags = choose_lags(3600.0, horizons=[24], rows=20_000, targets=1)
    # 24 hours ahead, the same hour of today is known: it is now. Its neighbours and those of yesterday are lags.
    assert {1, 2, 3, 4, 24, 20, 28} <= set(lags)
    assert {7 * 24 - 24, 14 * 24 - 24} <= set(lags)
    assert max(lags) == 14 * 24 - 24 + 4


def test_only_what_the_training_data_has():
    assert max(choose_lags(3600.0, [1], 400, 1)) <= 100
    assert choose_lags(None, [1], 100_000, 1) == tuple(range(1, 25))
    assert choose_lags(86_400.0, [1], 100_000, 1) == tuple(range(1, 25))  # which includes two weeks
    assert choose_lags(60.0, [1], 10**6, 1)[-1] <= MAX_LAG
    assert choose_lags(3600.0, [1], 3, 1) == (1,)


def test_many_targets_have_fewer_lags_each():
    for targets in (3, 10, 60):
        lags = choose_lags(3600.0, [1], 20_000, targets)
        assert lags[0] == 1
        assert targets * len(lags) <= MAX_NUMBERS or len(lags) <= 10


def test_harmonics_that_rows_are_close_enough_for():
    assert harmonics((24.0, 168.0), 24.0) == (168.0, 84.0, 56.0)
    hourly = harmonics((24.0, 168.0), 1.0)
    assert len(hourly) == len(set(hourly)) == 6 + 16 - 2  # the 7th and 14th of the week are those of the day
    assert min(hourly) == 4.0


def test_every_horizon_has_the_rows_of_its_own_time():
    lags = choose_lags(3600.0, range(1, 49), 20_000, 1)
    assert len(lags) <= MAX_NUMBERS
    for horizon in range(1, 49):
        assert 168 - horizon in lags
        assert 24 * (horizon // 24 + 1) - horizon in lags
    assert set(choose_lags(3600.0, [24], 20_000, 1)) <= set(lags)


@pytest.mark.parametrize(("targets", "largest"), [(2, False), (3, False), (4, True), (60, True)])
def test_with_many_numbers_the_largest_horizon_alone_has_them(targets, largest):
    lags = choose_lags(3600.0, range(1, 49), 20_000, targets)
    assert (lags == choose_lags(3600.0, [48], 20_000, targets)) is largest
    assert targets * len(lags) <= MAX_NUMBERS
