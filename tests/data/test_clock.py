"""Times and the steps between them."""

from datetime import date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest

from nystream.data import clock

MOMENT = np.datetime64("2024-03-01T12:30")


@pytest.mark.parametrize(
    ("value", "form", "zoned"),
    [
        ("2024-03-01 12:30", clock.ISO, False),
        (" 2024-03-01T12:30:00Z", clock.ISO, True),
        ("2024-03-01T14:30:00+02:00", clock.ISO, True),
        ("2024-03-01 14:30:00 +0200", clock.ISO, True),
        ("2024-03-01 12:30:00 UTC", clock.ISO, True),
        ("2024-03-01 12:30:00GMT", clock.ISO, True),
        ("01.03.2024 12:30", "%d.%m.%Y %H:%M", False),
        ("3/1/2024 12:30 PM", "%m/%d/%Y %I:%M %p", False),
        ("202403011230", "%Y%m%d%H%M", False),
        (202403011230, "%Y%m%d%H%M", False),
        (202403011230.0, "%Y%m%d%H%M", False),
        ("1709296200", clock.SECONDS, True),
        (1709296200.0, clock.SECONDS, True),
        ("1709296200000", clock.MILLISECONDS, True),
        (1709296200000000, clock.MICROSECONDS, True),
        (1709296200000000000, clock.NANOSECONDS, True),
        (datetime(2024, 3, 1, 12, 30), clock.ISO, False),
        (datetime(2024, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2))), clock.ISO, True),
        (np.datetime64("2024-03-01T12:30", "m"), clock.ISO, False),
    ],
)
def test_times(value, form, zoned):
    assert clock.read(value, form) == (MOMENT, zoned)
    assert clock.parse(value, form) == MOMENT


@pytest.mark.parametrize("text", ["2024-02-29 24:00", "2024-02-29T24:00:00", "2024-03-01"])
def test_the_end_of_a_day_is_the_beginning_of_the_next(text):
    assert clock.parse(text, clock.ISO) == np.datetime64("2024-03-01")
    assert clock.parse("02/29/2024 24:00", "%m/%d/%Y %H:%M") == np.datetime64("2024-03-01")
    assert clock.parse(date(2024, 3, 1), clock.ISO) == np.datetime64("2024-03-01")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("soon", clock.ISO),
        ("2024-03-01 25:00", clock.ISO),
        ("20240301", clock.ISO),  # a number, perhaps
        (20240301, clock.ISO),
        ("1712122500", "%Y%m%d%H"),  # seconds since 1970, not the year 1712
        ("170929620", clock.SECONDS),  # 1975
        ("1709296200", clock.MILLISECONDS),
        (True, clock.SECONDS),
        ([1709296200], clock.SECONDS),
        (None, clock.ISO),
        (np.datetime64("NaT"), clock.ISO),
    ],
)
def test_what_is_no_time(value, form):
    with pytest.raises(ValueError, match=r"."):
        clock.parse(value, form)


def stamps(seconds):
    return np.datetime64("2024-01-01", "us") + (np.asarray(seconds) * 1e6).round().astype("timedelta64[us]")


def test_the_step_is_the_most_common_one():
    known = np.array(["2024-01-01T00", "2024-01-01T01", "2024-01-01T05", "2024-01-01T06", "NaT"], "datetime64[us]")
    assert clock.step_of(known) == np.timedelta64(1, "h")
    assert clock.step_of(known[:1]) is None
    said = [clock.amount(np.timedelta64(n, "s")) for n in (60, 900, 86400, 3600)]
    assert said == ["1 minute", "15 minutes", "1 day", "1 hour"]


def test_a_clock_that_is_not_exact():
    rng = np.random.default_rng(0)
    known = stamps(np.arange(500) * 10 + rng.uniform(-0.4, 0.4, 500))
    assert clock.step_of(known) == np.timedelta64(10, "s")
    assert clock.even(known, np.timedelta64(10, "s"))
    known = stamps(np.arange(500) * 10 + rng.uniform(-2, 2, 500))  # too far off, but one at a time
    assert clock.even(known, clock.step_of(known))


def test_rows_of_which_many_are_missing_are_even_and_rows_at_random_are_not():
    rng = np.random.default_rng(0)
    known = stamps(60 * np.flatnonzero(rng.random(500) < 0.3))
    assert clock.step_of(known) == np.timedelta64(1, "m")
    assert clock.even(known, np.timedelta64(1, "m"))
    known = stamps(rng.exponential(10, 500).cumsum())
    assert not clock.even(known, clock.step_of(known))


def test_months_are_even_enough():
    months = np.arange("2023-01", "2025-01", dtype="datetime64[M]").astype("datetime64[us]")
    step = clock.step_of(months)
    assert all(clock.place(a, b, step) == (1, True) for a, b in pairwise(months))
    assert clock.place(months[0], months[3], step) == (3, True)


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
    assert clock.daylight(*np.array([last, now], "datetime64[us]"), np.timedelta64(1, "h")) is moved
