"""Detecting the format of times."""

from datetime import datetime, timedelta

import pytest

from nystream.data.timestamps import formats


def found(values, named=False):
    candidates = formats.candidates(values[: formats.SAMPLE_SIZE], named)
    return formats.find_format(values, candidates) if len(candidates) > 1 else candidates[0] if candidates else None


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-03-01 12:30", "iso"),
        ("2024-03-01 12:30 UTC", "iso"),
        ("31.03.2024 12:30", "%d.%m.%Y %H:%M"),
        ("31.03.24", "%d.%m.%y"),
        ("2024/03/01 12:30:00", "%Y/%m/%d %H:%M:%S"),
        ("3/31/2024 1:30 AM", "%m/%d/%Y %I:%M %p"),
        ("12/31/2024 24:00", "%m/%d/%Y %H:%M"),
        ("2024-03", "%Y-%m"),
        ("2024123123", "%Y%m%d%H"),
        ("20241231", "%Y%m%d"),
        ("1709296200", "seconds"),
        ("1712122500", "seconds"),
        (1709296200.0, "seconds"),
        ("1709296200000", "milliseconds"),
        ("1709296200000000", "microseconds"),
    ],
)
def test_forms(text, form):
    assert found([text]) == form


@pytest.mark.parametrize("values", [[], ["soon"], ["2024-01-01", "x"], [3.5], ["1709296200", "5"], ["1990"]])
def test_what_is_no_time(values):
    assert found(values) is None


def test_a_few_fields_that_are_no_times_are_left_to_be_reported():
    assert found(["2024-01-01"] * 19 + ["x"]) == "iso"
    assert found(["2024-01-01", "x", "y"], named=True) == "iso"
    assert found(["1709296200", "5"], named=True) == "seconds"
    assert found(["1990", "1991"], named=True) == "%Y"


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m-%d-%Y", "%m/%d/%y"])
def test_days_and_months_are_told_apart(form):
    step = timedelta(minutes=15) if "H" in form else timedelta(days=1)
    assert found([(datetime(2024, 1, 1) + i * step).strftime(form) for i in range(400)]) == form


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y"])
def test_months_are_not_days_of_january(form):
    assert found([datetime(2000 + i // 12, i % 12 + 1, 1).strftime(form) for i in range(60)]) == form


def test_one_bad_row_does_not_make_a_day_a_month():
    values = [(datetime(2024, 1, 1) + timedelta(hours=i)).strftime("%m/%d/%Y %H:%M") for i in range(500)]
    values[400] = "?!"
    assert found(values) == "%m/%d/%Y %H:%M"


def test_what_could_be_either_is_refused():
    values = [f"03/04/2024 10:{i:02d}" for i in range(60)]
    with pytest.raises(ValueError, match=r"give `time_format='%d/%m/%Y %H:%M'` or `time_format='%m/%d/%Y %H:%M'`"):
        found(values)


def test_a_given_format():
    formats.check_format("%d %b %Y")
    formats.check_format("seconds")
    assert formats.matches(["1 Jan 2024"] * 3, "%d %b %Y")
    assert not formats.matches(["2024-01-01"], "%d %b %Y")
    with pytest.raises(ValueError, match="time_format='days' must be like"):
        formats.check_format("days")
