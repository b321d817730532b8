"""Times as people write them."""

from datetime import date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

from nystream.data import clock


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-03-01 12:30", clock.ISO),
        ("2024-03-01T12:30:00Z", clock.ISO),
        ("2024-03-01T14:30:00+02:00", clock.ISO),
        ("01.03.2024 12:30", "%d.%m.%Y %H:%M"),
        ("2024/03/01 12:30:00", "%Y/%m/%d %H:%M:%S"),
        ("1709296200", clock.SECONDS),
        (1709296200.0, clock.SECONDS),
        ("1709296200000", clock.MILLISECONDS),
        (datetime(2024, 3, 1, 12, 30), clock.ISO),
    ],
)
def test_forms(text, form):
    assert clock.find_form([text]) == form
    assert clock.parse(text, form) == np.datetime64("2024-03-01T12:30")


def test_a_date():
    assert clock.parse(date(2024, 3, 1), clock.ISO) == np.datetime64("2024-03-01")


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M"])
def test_days_and_months_are_told_apart(form):
    step = timedelta(days=1) if form.endswith("Y") else timedelta(minutes=15)
    assert clock.find_form([(datetime(2024, 1, 1) + i * step).strftime(form) for i in range(400)]) == form


@pytest.mark.parametrize("values", [[], [None], ["soon"], ["2024-01-01", "x"], [3.5], ["1709296200", "1709296200"]])
def test_what_is_no_time(values):
    assert clock.find_form(values) is None


def test_the_step_is_the_most_common_one():
    stamps = np.array(["2024-01-01T00", "2024-01-01T01", "2024-01-01T05", "2024-01-01T06", "NaT"], "datetime64[us]")
    assert clock.step_of(stamps) == np.timedelta64(1, "h")
    assert clock.step_of(stamps[:1]) is None
    assert [clock.spelled(np.timedelta64(n, "s")) for n in (60, 900, 86400, 3600)] == [
        "minute",
        "15 minutes",
        "day",
        "hour",
    ]


def test_months_are_even_enough():
    months = np.arange("2023-01", "2025-01", dtype="datetime64[M]").astype("datetime64[us]")
    step = clock.step_of(months)
    assert all(clock.place(a, b, step) == (1, True) for a, b in pairwise(months))
    assert clock.place(months[0], months[3], step) == (3, True)
