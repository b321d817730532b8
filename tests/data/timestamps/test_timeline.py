"""Which rows are accepted, given their times."""

import numpy as np
import pytest

from nystream.data.timestamps.spacing import Spacing
from nystream.data.timestamps.timeline import Span, Verdict, judge

HOUR = 3_600_000_000
HOURLY = Spacing(np.timedelta64(1, "h"))


@pytest.mark.parametrize("gaps", ["fail", "fill", "skip"])
def test_rows_that_follow_each_other(gaps):
    span, times = Span(), []
    for hour in range(5):
        verdict = judge(HOURLY, gaps, span, hour * HOUR)
        assert verdict == Verdict(verdict.span, (("row", hour * HOUR),))
        times += verdict.rows
        span = verdict.span
    assert times == [("row", hour * HOUR) for hour in range(5)]
    assert span == Span(0, 4 * HOUR)


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.0, "comes after 1970-01-01 00:00:00, less than one step of 1 hour later"),
        (3.0, "2 rows are missing between 1970-01-01 00:00:00 and 1970-01-01 03:00:00"),
        (1.5, "not a whole number of steps of 1 hour later"),
        (1e6, "999999 rows are missing"),
        (-1e6, "less than one step of 1 hour later"),
    ],
)
def test_if_gaps_are_errors_nothing_is_held_back(hours, words):
    verdict = judge(HOURLY, "fail", Span(0, 0), int(hours * HOUR))
    assert words in verdict.error
    assert verdict.rows == ()
    assert not verdict.held_back


@pytest.mark.parametrize("gaps", ["fail", "fill", "skip"])
def test_rows_that_come_newest_first(gaps):
    verdict = judge(HOURLY, gaps, Span(9 * HOUR, 9 * HOUR), 8 * HOUR)
    assert "newest first? a stream must be oldest first: (head -n 1 FILE;" in verdict.error + verdict.note
    for span, hour in ((verdict.span, 7), (Span(0, 9 * HOUR), 8)):  # it was said before; one row came again
        verdict = judge(HOURLY, gaps, span, hour * HOUR)
        assert "newest first?" not in verdict.error + verdict.note


def test_daylight_saving_time():
    last = int(np.datetime64("2024-03-31T01:00", "us").astype(int))
    assert "daylight saving time?" in judge(HOURLY, "fail", Span(last, last), last + 2 * HOUR).error


def test_a_row_that_is_held_back_may_be_followed_by_a_gap():
    span = judge(HOURLY, "fill", Span(0, 0), 500 * HOUR).span
    verdict = judge(HOURLY, "fill", span, 503 * HOUR)
    kinds = [kind for kind, _ in verdict.rows]
    assert kinds == ["gap"] * 499 + ["pending"] + ["gap"] * 2 + ["row"]
    assert [time // HOUR for _, time in verdict.rows] == list(range(1, 504))
    assert judge(HOURLY, "skip", span, 503 * HOUR).skipped == 501


def test_a_repeated_row_leaves_the_one_that_is_held_back():
    span = judge(HOURLY, "skip", Span(0, 9 * HOUR), 500 * HOUR).span
    again = judge(HOURLY, "skip", span, 3 * HOUR)
    assert not again.rows
    assert again.span == span
    assert judge(HOURLY, "skip", again.span, 501 * HOUR).rows == (("pending", 500 * HOUR), ("row", 501 * HOUR))
