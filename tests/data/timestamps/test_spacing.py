"""The time step between rows."""

from itertools import pairwise

import numpy as np
import pytest

from nystream.data.timestamps.spacing import (
    Spacing,
    distance,
    duration,
    find_spacing,
    is_clock_change,
    is_regular,
    typical_step,
)

HOUR = 3_600_000_000


def stamps(seconds):
    return np.datetime64("2024-01-01", "us") + (np.asarray(seconds) * 1e6).round().astype("timedelta64[us]")


def test_the_step_is_the_most_common_one():
    known = np.array(["2024-01-01T00", "2024-01-01T01", "2024-01-01T05", "2024-01-01T06", "NaT"], "datetime64[us]")
    assert typical_step(known) == np.timedelta64(1, "h")
    assert typical_step(known[:1]) is None
    texts = [duration(np.timedelta64(n, "s")) for n in (60, 900, 86400, 3600)]
    assert texts == ["1 minute", "15 minutes", "1 day", "1 hour"]


def test_a_clock_that_is_not_exact():
    rng = np.random.default_rng(0)
    known = stamps(np.arange(500) * 10 + rng.uniform(-0.4, 0.4, 500))
    assert typical_step(known) == np.timedelta64(10, "s")
    assert is_regular(known, np.timedelta64(10, "s"))
    known = stamps(np.arange(500) * 10 + rng.uniform(-2, 2, 500))  # too far off, but one at a time
    assert is_regular(known, typical_step(known))


def test_rows_of_which_many_are_missing_are_even_and_rows_at_random_are_not():
    rng = np.random.default_rng(0)
    known = stamps(60 * np.flatnonzero(rng.random(500) < 0.3))
    assert typical_step(known) == np.timedelta64(1, "m")
    assert is_regular(known, np.timedelta64(1, "m"))
    known = stamps(rng.exponential(10, 500).cumsum())
    assert not is_regular(known, typical_step(known))


def test_months_are_even_enough():
    months = np.arange("2023-01", "2025-01", dtype="datetime64[M]").astype("datetime64[us]")
    step = typical_step(months)
    assert all(distance(a, b, step) == (1, True) for a, b in pairwise(months))
    assert distance(months[0], months[3], step) == (3, True)


@pytest.mark.parametrize(
    ("last", "now", "moved"),
    [
        ("2024-03-31T01", "2024-03-31T03", True),  # Central Europe, in spring
        ("2024-11-03T01", "2024-11-03T01", True),  # the east of the United States, in autumn
        ("2024-03-31T01", "2024-03-31T04", False),
        ("2024-03-30T01", "2024-03-30T03", False),
        ("2024-03-31T11", "2024-03-31T13", False),
    ],
)
def test_clocks_that_are_put_forward_or_back(last, now, moved):
    assert is_clock_change(*np.array([last, now], "datetime64[us]"), np.timedelta64(1, "h")) is moved


@pytest.mark.parametrize(
    ("times", "months", "day", "amount"),
    [
        (["2024-01-01", "2024-02-01", "2024-03-01"], 1, 1, "1 month"),
        (["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"], 1, 31, "1 month"),  # the last day
        (["2023-02-28", "2023-05-30", "2023-08-30"], 3, 30, "3 months"),
        (["2020-02-29", "2021-02-28", "2022-02-28"], 12, 29, "1 year"),
        (["2024-03-01T06:00", "2024-01-01T06:00", "NaT", "2024-02-01T06:00"], 1, 1, "1 month"),
        (["2024-01-01", "2024-02-01", "2024-04-01", "2024-05-01"], 1, 1, "1 month"),  # one is missing
        (["2024-01-01", "2024-02-02", "2024-03-01"], 0, 0, "31 days"),
        (["2024-01-01T00", "2024-02-01T01", "2024-03-01T00"], 0, 0, "31 days"),
        (["2024-01-01", "2024-01-01", "2024-02-01"], 0, 0, "31 days"),
        (["2024-01-01", "2024-02-01"], 0, 0, "31 days"),  # which may be chance
    ],
)
def test_rows_that_go_by_the_calendar(times, months, day, amount):
    spacing = find_spacing(np.array(times, "datetime64[us]"), np.timedelta64(31, "D"))
    assert (spacing.months, spacing.day, str(spacing)) == (months, day, amount)


def test_times_of_later_rows():
    ends = Spacing(np.timedelta64(2_629_746, "s"), 1, 31)
    time = int(np.datetime64("2023-01-31T18:30", "us").astype(int))
    found = [str(np.datetime64(ends.after(time, i), "us"))[:16] for i in (1, 2, 13, -2)]
    assert found == ["2023-02-28T18:30", "2023-03-31T18:30", "2024-02-29T18:30", "2022-11-30T18:30"]
    assert ends.between(time, ends.after(time, 3), 1, 3) == ends.after(time, 1)
    hourly = Spacing(np.timedelta64(1, "h"))
    assert hourly.after(7, 2) == 7 + 2 * HOUR
    assert hourly.between(0, 3 * HOUR + 30, 2, 3) == 2 * HOUR + 20
