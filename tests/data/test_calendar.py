"""Time as sines and cosines of the day and of the week."""

import numpy as np
import pytest

from nystream.data.calendar import time_features

START = np.datetime64("2021-03-01T00:00", "m")


@pytest.mark.parametrize("minutes", [5, 15, 60, 360])
def test_time_features_repeat_with_the_day_and_the_week(minutes):
    features = time_features(np.arange(START, START + np.timedelta64(14, "D"), np.timedelta64(minutes, "m")))
    day, week = 24 * 60 // minutes, 7 * 24 * 60 // minutes
    np.testing.assert_allclose(features[day:, :2], features[:-day, :2], atol=1e-12)
    np.testing.assert_allclose(features[week:, 2:], features[:-week, 2:], atol=1e-12)
    np.testing.assert_allclose(features[:, ::2] ** 2 + features[:, 1::2] ** 2, 1)
    assert len(np.unique(features[:week].round(9), axis=0)) == week  # every time of the week has its own


def test_time_features_are_of_the_time_and_not_of_the_unit():
    stamps = np.array(["2021-03-01T00:00", "2021-03-01T06:00", "2021-03-08T06:00"], "datetime64[m]")
    features = time_features(stamps)
    np.testing.assert_allclose(features[0, :2], [0, 1], atol=1e-12)  # midnight
    np.testing.assert_allclose(features[1, :2], [1, 0], atol=1e-12)  # a quarter of a day later
    np.testing.assert_allclose(features[1], features[2], atol=1e-12)  # a week later
    for unit in ("s", "ms", "ns"):
        np.testing.assert_array_equal(time_features(stamps.astype(f"datetime64[{unit}]")), features)


def test_refuses_times_that_are_none():
    with pytest.raises(ValueError, match="must be datetime64"):
        time_features(np.arange(3))
    with pytest.raises(ValueError, match="NaT"):
        time_features(np.array(["2021-01-01", "NaT"], "datetime64[s]"))
