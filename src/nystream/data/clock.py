"""When a row was measured: how times are written, how far apart rows lie, and where a row belongs after the last."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ISO = "iso"  # what datetime.fromisoformat reads, and a little more
SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS = "seconds", "milliseconds", "microseconds", "nanoseconds"  # of 1970
EPOCHS = {SECONDS: 1e6, MILLISECONDS: 1e3, MICROSECONDS: 1.0, NANOSECONDS: 1e-3}  # microseconds in one
SINCE, UNTIL = 3.2e14, 4.2e15  # microseconds of 1980 and 2103, between which a number is taken for a time
DIGITS = {"%Y%m%d": 8, "%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}  # and how many there are
LOOSE = 0.1  # of a step: months differ by less
JITTER = 0.25  # of a step, by which the next row may be early or late: clocks are not exact

EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)

Stamp = np.datetime64


class Place(NamedTuple):
    """Where a row belongs."""

    steps: int  # after the last row: 1 where nothing is missing, 0 where it is too early
    regular: bool  # whether its time is about that many steps later


def parse(value: Any, form: str) -> Stamp:
    """A time in microseconds, by UTC where it names a zone; ValueError where it is not of the form."""
    return read(value, form)[0]


def read(value: Any, form: str) -> tuple[Stamp, bool]:
    """As `parse`; and whether it names a zone, as seconds since 1970 do."""
    found, zoned = instant(value, form)
    return np.datetime64(found, "us"), zoned


def instant(value: Any, form: str) -> tuple[int, bool]:
    """As `read`, with microseconds since 1970 in place of a time: one at a time, Python's numbers are far faster."""
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError("it is no time (NaT)")
        return int(value.astype("datetime64[us]").astype(np.int64)), False
    if isinstance(value, date):
        return _instant(datetime(value.year, value.month, value.day))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is a {type(value).__name__}, but a time must be text")
    if form in EPOCHS:
        number = float(value) * EPOCHS[form]
        if not SINCE <= number < UNTIL:
            raise ValueError(f"{value!r} is no time in {form} since 1970")
        return round(number), True
    if form == ISO and not isinstance(value, str):
        raise ValueError(f"{value!r} is a {type(value).__name__}, but a time must be text")
    whole = isinstance(value, float) and value.is_integer()
    return _instant(_moment(str(int(value) if whole else value).strip(), form))


def step_of(stamps: NDArray[Any]) -> np.timedelta64 | None:
    """The usual time between two rows; None where no row is later than the one before.

    The shortest of the common ones, or the middle one where more rows lie a whole number of those apart: clocks that
    are not exact hardly give the same time twice.
    """
    apart = _apart(stamps)
    if not len(apart):
        return None
    lengths, counts = np.unique(apart, return_counts=True)
    common, middle = lengths[counts >= counts.max() / 2][0], _rounded(np.median(apart))
    return max((common, middle), key=lambda step: float(_whole(apart, step).mean())).astype("timedelta64[us]")


def even(stamps: NDArray[Any], step: np.timedelta64) -> bool:
    """Whether rows lie steps apart: half of them whole steps, or nearly all of them about one."""
    apart = _apart(stamps)
    once = np.round(apart / step) == 1
    return bool(_whole(apart, step).mean() >= 0.5 or once.mean() >= 0.9)


def daylight(last: Stamp, now: Stamp, step: np.timedelta64) -> bool:
    """Whether the hour that is missing or comes again is that of clocks put forward or back, on a Sunday night."""
    moved = abs(now - last - step) == np.timedelta64(1, "h")
    return bool(
        moved and now.astype("datetime64[D]").astype(int) % 7 == 3 and now.astype("datetime64[h]").astype(int) % 24 < 5
    )


def place(last: int, now: int, step: int) -> Place:
    """Where a row measured at `now` belongs after one measured at `last`, all in microseconds."""
    exact = (now - last) / step
    steps = max(0, round(exact))
    return Place(steps, steps > 0 and abs(exact - steps) <= max(LOOSE * steps, JITTER * (steps == 1)))


def amount(step: np.timedelta64) -> str:
    """A time in words."""
    seconds = step / np.timedelta64(1, "s")
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"


def _moment(text: str, form: str) -> datetime:
    try:
        return _parsed(text, form)
    except ValueError:
        # The end of a day, as some write it, is the beginning of the next.
        if not re.search("[T ]24:00(:00)?", text):
            raise
    return _parsed(re.sub("([T ])24:00", r"\g<1>00:00", text), form) + timedelta(days=1)


def _parsed(text: str, form: str) -> datetime:
    if form in DIGITS:
        if not (len(text) == DIGITS[form] and text.isdigit() and 1900 <= int(text[:4]) < 2100):
            raise ValueError(f"{text!r} is not {DIGITS[form]} digits of a date")
    elif form == ISO:
        if text.isdigit():
            raise ValueError(f"{text!r} is a number")
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # What is written besides, and means the same: 2024-01-01 12:00 UTC, 2024-01-01 12:00 +0100
            zone = re.sub(" ?(UTC|GMT)$", "+00:00", text)
            return datetime.fromisoformat(re.sub(" ([+-][0-9]{2}:?[0-9]{2})$", r"\1", zone))
    return datetime.strptime(text, form)


def _instant(moment: datetime) -> tuple[int, bool]:
    """Microseconds since 1970, and whether it names a zone."""
    if moment.tzinfo is None:
        return (moment - EPOCH) // MICROSECOND, False
    return (moment - EPOCH.replace(tzinfo=UTC)) // MICROSECOND, True


def _apart(stamps: NDArray[Any]) -> NDArray[Any]:
    """Between each row and the next, where that one is later."""
    apart = np.diff(stamps[~np.isnat(stamps)])
    return apart[apart > np.timedelta64(0)]


def _whole(apart: NDArray[Any], step: np.timedelta64) -> NDArray[np.bool_]:
    """Which of them are about a whole number of steps."""
    exact = apart / step
    return (exact > 0.5) & (np.abs(exact - np.round(exact)) <= LOOSE)


def _rounded(step: Any) -> np.timedelta64:
    """A step that is about a whole number of days, hours, minutes, seconds or milliseconds, as that."""
    for unit in ("D", "h", "m", "s", "ms"):
        one = np.timedelta64(1, unit).astype("timedelta64[us]")
        near = one * round(step / one)
        if abs(near - step) <= step / 100:
            return near
    return np.timedelta64(step, "us")
