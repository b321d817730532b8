"""Local times, with daylight saving time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nystream.data.timestamps.spacing import Spacing
from nystream.data.timestamps.timeline import Span, judge
from nystream.data.timestamps.zone import find_zone, local_text, local_times, shifted_to_utc, to_local, to_utc

BERLIN = "Europe/Berlin"
MINUTE = 60_000_000
HOUR = 60 * MINUTE
ZONES = st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])


def us(text):
    return int(np.datetime64(text, "us").astype(np.int64))


@given(timezone=ZONES, start=st.integers(us("2000-01-01"), us("2030-01-01")))
def test_local_times_are_those_of_zoneinfo(timezone, start):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=start)
    there = moment.astimezone(ZoneInfo(timezone))
    local = to_local(start, timezone)
    assert local == us(there.replace(tzinfo=None))
    assert local_times(np.array([start]).view("datetime64[us]"), timezone)[0] == np.datetime64(local, "us")
    assert local_text(start, timezone) == there.isoformat()
    assert start in (to_utc(local, timezone, start), shifted_to_utc(local, timezone))


@given(
    timezone=ZONES,
    year=st.integers(2000, 2030),
    spring=st.booleans(),
    offset=st.integers(-300, -120),
    minutes=st.sampled_from([1, 5, 10, 15, 20, 30, 60]),
)
def test_rows_in_order_tell_which_hour_is_meant(timezone, year, spring, offset, minutes):
    # The change may be hours away: then nothing is repeated or missing.
    day = datetime(year, 3 if spring else 10, 31, tzinfo=UTC)
    change = day - timedelta(days=(day.weekday() + 1) % 7) + timedelta(hours=1)
    begin = us(change.replace(tzinfo=None)) + offset * MINUTE
    moments = [begin + i * minutes * MINUTE for i in range(600 // minutes)]
    found, due = [], None
    for moment in moments:
        found.append(to_utc(to_local(moment, timezone), timezone, due))
        due = found[-1] + minutes * MINUTE
    assert found == moments


def test_a_repeated_hour():
    half = us("2024-10-27T02:30")
    first = us("2024-10-27T00:30")
    assert to_utc(half, BERLIN) == shifted_to_utc(half, BERLIN) == first
    assert to_utc(half, BERLIN, first + HOUR) == first + HOUR
    assert to_utc(half, BERLIN, first + HOUR // 2) == first + HOUR  # as near: time goes on
    assert to_utc(half, BERLIN, first + HOUR // 4) == first  # a row that came again


def test_a_missing_hour():
    half = us("2024-03-31T02:30")
    with pytest.raises(
        ValueError, match="clocks in Europe/Berlin were set forward, so there was no 02:30:00 on 2024-03-31"
    ):
        to_utc(half, BERLIN)
    assert shifted_to_utc(half, BERLIN) == us("2024-03-31T01:30")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Berlin", "timezone='Berlin' is not the name of a time zone, such as Europe/Berlin"),
        ("Europe", "is not the name of a time zone"),
        ("../etc", "such as Europe/Berlin or UTC"),
        ("CEST", "is not the name of a time zone"),
    ],
)
def test_other_names(name, words):
    with pytest.raises(ValueError, match=words):
        find_zone(name)


def test_days_and_months_are_those_of_the_zone():
    daily = Spacing(np.timedelta64(1, "D"), timezone=BERLIN)
    midnight = us("2024-03-30T23:00")  # of the 31st
    assert [local_text(daily.after(midnight, i), BERLIN)[:19] for i in (-1, 1, 2)] == [
        "2024-03-30T00:00:00",
        "2024-04-01T00:00:00",
        "2024-04-02T00:00:00",
    ]
    assert local_text(daily.between(midnight, daily.after(midnight, 3), 1, 3), BERLIN) == "2024-04-01T00:00:00+02:00"
    monthly = Spacing(np.timedelta64(2_629_746, "s"), 1, 1, BERLIN)
    assert local_text(monthly.after(us("2024-02-29T23:00"), 1), BERLIN) == "2024-04-01T00:00:00+02:00"
    hourly = Spacing(np.timedelta64(1, "h"), timezone=BERLIN)
    assert hourly.after(midnight, 30) == midnight + 30 * HOUR


def test_messages_have_local_times():
    spacing, last = Spacing(np.timedelta64(1, "h"), timezone=BERLIN), us("2024-10-27T00:00")
    error = judge(spacing, "fail", Span(last, last), last + 2 * HOUR).error
    assert error == "1 row is missing between 2024-10-27 02:00:00+02:00 and 2024-10-27 03:00:00+01:00"
