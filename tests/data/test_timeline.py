"""How far apart rows lie, and where they belong."""

import numpy as np
import pytest

from nystream.data.timeline import Pace, Span, Verdict, find_pace, judge

HOUR = 3_600_000_000
HOURLY = Pace(np.timedelta64(1, "h"))


def stamps(*texts):
    return np.array(texts, "datetime64[us]")


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
    pace = find_pace(stamps(*times), np.timedelta64(31, "D"))
    assert (pace.months, pace.day, pace.amount()) == (months, day, amount)


def test_times_of_later_rows():
    ends = Pace(np.timedelta64(2_629_746, "s"), 1, 31)
    time = int(np.datetime64("2023-01-31T18:30", "us").astype(int))
    found = [str(np.datetime64(ends.after(time, i), "us"))[:16] for i in (1, 2, 13, -2)]
    assert found == ["2023-02-28T18:30", "2023-03-31T18:30", "2024-02-29T18:30", "2022-11-30T18:30"]
    assert ends.between(time, ends.after(time, 3), 1, 3) == ends.after(time, 1)
    assert HOURLY.after(7, 2) == 7 + 2 * HOUR
    assert HOURLY.between(0, 3 * HOUR + 30, 2, 3) == 2 * HOUR + 20


@pytest.mark.parametrize("gaps", ["fail", "fill", "skip"])
def test_rows_that_go_on(gaps):
    span, times = Span(), []
    for hour in range(5):
        verdict = judge(HOURLY, gaps, span, hour * HOUR)
        assert verdict == Verdict(verdict.span, (("row", hour * HOUR),))
        times += verdict.tokens
        span = verdict.span
    assert times == [("row", hour * HOUR) for hour in range(5)]
    assert span == Span(0, 4 * HOUR)


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.0, "comes after 1970-01-01 00:00:00, not a step of 1 hour later"),
        (3.0, "2 rows are missing between 1970-01-01 00:00:00 and 1970-01-01 03:00:00"),
        (1.5, "no whole number of steps of 1 hour later"),
        (1e6, "999999 rows are missing"),
        (-1e6, "not a step of 1 hour later"),
    ],
)
def test_where_gaps_are_errors_nothing_is_doubted(hours, words):
    verdict = judge(HOURLY, "fail", Span(0, 0), int(hours * HOUR))
    assert words in verdict.wrong
    assert verdict.tokens == ()
    assert not verdict.doubted


def test_clocks_that_are_put_forward():
    last = int(np.datetime64("2024-03-31T01:00", "us").astype(int))
    assert "clocks put forward or back?" in judge(HOURLY, "fail", Span(last, last), last + 2 * HOUR).wrong


def test_a_doubted_row_may_be_followed_by_a_gap():
    span = judge(HOURLY, "fill", Span(0, 0), 500 * HOUR).span
    verdict = judge(HOURLY, "fill", span, 503 * HOUR)
    whats = [what for what, _ in verdict.tokens]
    assert whats == ["gap"] * 499 + ["doubted"] + ["gap"] * 2 + ["row"]
    assert [time // HOUR for _, time in verdict.tokens] == list(range(1, 504))
    assert judge(HOURLY, "skip", span, 503 * HOUR).passed == 501


def test_a_row_that_was_met_leaves_the_doubt():
    span = judge(HOURLY, "skip", Span(0, 9 * HOUR), 500 * HOUR).span
    again = judge(HOURLY, "skip", span, 3 * HOUR)
    assert not again.tokens
    assert again.span == span
    assert judge(HOURLY, "skip", again.span, 501 * HOUR).tokens == (("doubted", 500 * HOUR), ("row", 501 * HOUR))
