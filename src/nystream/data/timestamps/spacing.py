"""The time step between rows: a fixed time, or months of the calendar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.timestamps.zone import shifted_to_utc, to_local

TOLERANCE = 0.1  # of a step; the lengths of months differ by less
JITTER = 0.25  # of a step: how early or late the next row may be
MONTH = np.timedelta64(2_629_746, "s")  # on average
_DAY = 86_400_000_000  # microseconds
MIN_CALENDAR_ROWS = 3  # fewer may fall on the same day of the month by chance


@dataclass(frozen=True)
class Spacing:
    """The time between two rows.

    Args:
        step: The time; the average one if rows follow the calendar.
        months: Months between two rows; 0 if rows do not follow the calendar.
        day: The day of the month that rows fall on, or its last day if the month is shorter.
        timezone: The time zone in which days and months are counted; "" if times are as they are written, or in UTC.
    """

    step: np.timedelta64
    months: int = 0
    day: int = 0
    timezone: str = ""

    @cached_property
    def microseconds(self) -> int:
        return int(self.step / np.timedelta64(1, "us"))

    def after(self, time: int, rows: int) -> int:
        """Return the time of a row, given the time of the one that many rows before; in microseconds."""
        if not self.by_days:
            return self._after(time, rows)
        return shifted_to_utc(self._after(to_local(time, self.timezone), rows), self.timezone)

    @cached_property
    def by_days(self) -> bool:
        """Whether steps are days or months of a time zone, whose length in hours differs."""
        whole = self.months > 0 or self.microseconds % _DAY == 0
        return bool(self.timezone) and whole

    def _after(self, time: int, rows: int) -> int:
        if not self.months:
            return time + self.microseconds * rows
        stamp = np.datetime64(time, "us")
        date, month = stamp.astype("datetime64[D]"), stamp.astype("datetime64[M]") + self.months * rows
        day = month.astype("datetime64[D]") + min(self.day, int(_days(month))) - 1
        return int((day + (stamp - date)).astype(np.int64))

    def between(self, before: int, after: int, i: int, steps: int) -> int:
        """Return the time of the i-th missing row between two rows that are `steps` apart."""
        return self.after(before, i) if self.months or self.by_days else before + (after - before) * i // steps

    def __str__(self) -> str:
        if not self.months:
            return duration(self.step)
        count, unit = (self.months // 12, "year") if self.months % 12 == 0 else (self.months, "month")
        return f"{count} {unit}{'' if count == 1 else 's'}"


class Distance(NamedTuple):
    """The time from one row to a later one."""

    steps: int  # 1 if nothing is missing between them, 0 if the row is too early
    regular: bool  # whether the time is close to a whole number of steps


def distance(last: int, now: int, step: int) -> Distance:
    """Count the steps from one time to another; all arguments are in microseconds."""
    exact = (now - last) / step
    steps = max(0, round(exact))
    return Distance(steps, steps > 0 and abs(exact - steps) <= max(TOLERANCE * steps, JITTER * (steps == 1)))


def find_spacing(stamps: NDArray[np.datetime64], step: np.timedelta64) -> Spacing:
    """Return the spacing of rows [N]: by the calendar if all fall on one day of the month, or on its last day."""
    known = np.sort(stamps[~np.isnat(stamps)])
    month, date = known.astype("datetime64[M]"), known.astype("datetime64[D]")
    day, time_of_day, apart = (date - month).astype(int) + 1, known - date, np.diff(month).astype(int)
    same = (day == np.minimum(day.max(), _days(month))).all() and (time_of_day == time_of_day[0]).all()
    if len(known) < MIN_CALENDAR_ROWS or apart.min() < 1 or not same:
        return Spacing(step)
    lengths, counts = np.unique(apart, return_counts=True)
    months = int(lengths[counts.argmax()])
    return Spacing(MONTH * months, months, int(day.max()))


def typical_step(stamps: NDArray[Any]) -> np.timedelta64 | None:
    """Return the usual time between two rows; None if no row is later than the one before.

    This is the shortest of the common ones, or the median if more rows are a whole number of those apart: inexact
    clocks rarely give the same difference twice.
    """
    apart = _differences(stamps)
    if not len(apart):
        return None
    lengths, counts = np.unique(apart, return_counts=True)
    common, median = lengths[counts >= counts.max() / 2][0], _rounded(np.median(apart))
    return max((common, median), key=lambda step: float(_whole(apart, step).mean())).astype("timedelta64[us]")


def is_regular(stamps: NDArray[Any], step: np.timedelta64) -> bool:
    """Whether at least half of the differences are whole steps, or nearly all are about one step."""
    apart = _differences(stamps)
    once = np.round(apart / step) == 1
    return bool(_whole(apart, step).mean() >= 0.5 or once.mean() >= 0.9)


def is_clock_change(last: np.datetime64, now: np.datetime64, step: np.timedelta64) -> bool:
    """Whether an hour is missing or repeated on a Sunday night, as when daylight saving time starts or ends."""
    moved = abs(now - last - step) == np.timedelta64(1, "h")
    sunday = now.astype("datetime64[D]").astype(int) % 7 == 3
    return bool(moved and sunday and now.astype("datetime64[h]").astype(int) % 24 < 5)


def duration(step: np.timedelta64) -> str:
    """Return a time difference in words."""
    seconds = step / np.timedelta64(1, "s")
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"


def _differences(stamps: NDArray[Any]) -> NDArray[Any]:
    """The time from each row to the next, if that one is later."""
    apart = np.diff(stamps[~np.isnat(stamps)])
    return apart[apart > np.timedelta64(0)]


def _whole(apart: NDArray[Any], step: np.timedelta64) -> NDArray[np.bool_]:
    """Which of the differences are about a whole number of steps."""
    exact = apart / step
    return (exact > 0.5) & (np.abs(exact - np.round(exact)) <= TOLERANCE)


def _rounded(step: Any) -> np.timedelta64:
    """The step, rounded to days, hours, minutes, seconds or milliseconds if it is within 1 % of a whole number."""
    for unit in ("D", "h", "m", "s", "ms"):
        length = np.timedelta64(1, unit).astype("timedelta64[us]")
        near = length * round(step / length)
        if abs(near - step) <= step / 100:
            return near
    return np.timedelta64(step, "us")


def _days(month: NDArray[np.datetime64] | np.datetime64) -> NDArray[np.int64]:
    """The number of days of each month."""
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(int)
