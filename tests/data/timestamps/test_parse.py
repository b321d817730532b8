"""Timestamps in all known formats."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from nystream.data.timestamps.parse import parse_time

MOMENT = np.datetime64("2024-03-01T12:30")


def parsed(value, time_format):
    return np.datetime64(parse_time(value, time_format)[0], "us")


@pytest.mark.parametrize(
    ("value", "time_format", "zoned"),
    [
        ("2024-03-01 12:30", "iso", False),
        (" 2024-03-01T12:30:00Z", "iso", True),
        ("2024-03-01T14:30:00+02:00", "iso", True),
        ("2024-03-01 14:30:00 +0200", "iso", True),
        ("2024-03-01 12:30:00 UTC", "iso", True),
        ("2024-03-01 12:30:00GMT", "iso", True),
        ("20240301T1230", "iso", False),
        ("2024-W09-5T12:30:00,0", "iso", False),
        ("01.03.2024 12:30", "%d.%m.%Y %H:%M", False),
        ("1.3.24 12:30:00.0", "%d.%m.%y %H:%M:%S.%f", False),
        ("3/1/2024 12:30 PM", "%m/%d/%Y %I:%M %p", False),
        ("202403011230", "%Y%m%d%H%M", False),
        (202403011230, "%Y%m%d%H%M", False),
        (202403011230.0, "%Y%m%d%H%M", False),
        ("1709296200", "seconds", True),
        (1709296200.0, "seconds", True),
        ("1709296200000", "milliseconds", True),
        (1709296200000000, "microseconds", True),
        (1709296200000000000, "nanoseconds", True),
        (datetime(2024, 3, 1, 12, 30), "iso", False),
        (datetime(2024, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2))), "iso", True),
        (np.datetime64("2024-03-01T12:30", "m"), "iso", False),
    ],
)
def test_times(value, time_format, zoned):
    assert parsed(value, time_format) == MOMENT
    assert parse_time(value, time_format)[1] is zoned


def test_the_end_of_a_day_is_the_beginning_of_the_next():
    for text in ("2024-02-29 24:00", "2024-02-29T24:00:00", "2024-03-01", date(2024, 3, 1)):
        assert parsed(text, "iso") == np.datetime64("2024-03-01")
    assert parsed("02/29/2024 24:00", "%m/%d/%Y %H:%M") == np.datetime64("2024-03-01")


def test_fractions_and_years_of_two_digits_are_read_as_python_does():
    assert parsed("01.03.2024 12:30:00.5", "%d.%m.%Y %H:%M:%S.%f") - MOMENT == np.timedelta64(500, "ms")
    assert parsed("01.03.69", "%d.%m.%y") == np.datetime64("1969-03-01")


@pytest.mark.parametrize(
    ("value", "time_format", "words"),
    [
        ("soon", "iso", "'soon'"),
        ("2024-03-01 25:00", "iso", "hour must be in"),
        ("20240301", "iso", "is a number"),
        (20240301, "iso", "is of type int, but a time must be text"),
        ("1712122500", "%Y%m%d%H", "is not a date of 10 digits"),  # seconds since 1970, not the year 1712
        ("170929620", "seconds", "is not a plausible number of seconds since 1970"),  # 1975
        ("1709296200", "milliseconds", "is not a plausible number of milliseconds"),
        (True, "seconds", "is of type bool"),
        ([1709296200], "seconds", "is of type list"),
        (None, "iso", "is of type NoneType"),
        (np.datetime64("NaT"), "iso", "it is NaT"),
    ],
)
def test_what_is_not_a_time(value, time_format, words):
    with pytest.raises(ValueError, match=words):
        parse_time(value, time_format)
