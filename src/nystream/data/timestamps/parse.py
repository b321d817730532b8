"""Parsing one timestamp in a known format.

Tables and live records go through the same parser. polars is faster on whole columns, but reads fewer notations
(no 24:00, no week dates, no space before a UTC offset), drops fractions of a second under Python's %f, and takes two
digits of a year for another century.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

ISO = "iso"  # whatever datetime.fromisoformat reads, and UTC offsets after a space or as UTC and GMT
EPOCHS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}  # since 1970, in microseconds
MIN_EPOCH, MAX_EPOCH = 3.2e14, 4.2e15  # 1980 and 2103 in microseconds: other numbers are not times
DIGITS = {"%Y%m%d": 8, "%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}  # format -> number of digits

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


def parse_time(value: Any, time_format: str) -> tuple[int, bool]:
    """Return microseconds since 1970, in UTC if the value has a time zone, and whether it has one.

    Plain integers are much faster than `np.datetime64` for single values. Seconds since 1970 count as having a time
    zone. Raises ValueError or OverflowError if the value does not match the format.
    """
    if isinstance(value, datetime):
        return _microseconds(value)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError("it is NaT")
        return int(value.astype("datetime64[us]").astype(np.int64)), False
    if isinstance(value, date):
        return _microseconds(datetime(value.year, value.month, value.day))
    if isinstance(value, bool) or not isinstance(value, str if time_format == ISO else str | int | float):
        raise ValueError(f"{value!r} is of type {type(value).__name__}, but a time must be text")
    if time_format in EPOCHS:
        number = float(value) * EPOCHS[time_format]
        if not MIN_EPOCH <= number < MAX_EPOCH:
            raise ValueError(f"{value!r} is not a plausible number of {time_format} since 1970")
        return round(number), True
    whole = isinstance(value, float) and value.is_integer()
    text = str(int(value) if whole else value).strip()
    try:
        return _microseconds(_parse_text(text, time_format))
    except ValueError:
        # Some write midnight as 24:00 of the day that ends.
        if not re.search("[T ]24:00(:00)?", text):
            raise
    midnight = _parse_text(re.sub("([T ])24:00", r"\g<1>00:00", text), time_format)
    return _microseconds(midnight + timedelta(days=1))


def _parse_text(text: str, time_format: str) -> datetime:
    if time_format == ISO:
        if text.isdigit():
            raise ValueError(f"{text!r} is a number")
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # Also accepted: 2024-01-01 12:00 UTC, 2024-01-01 12:00 +0100
            offset = re.sub(" ?(UTC|GMT)$", "+00:00", text)
            return datetime.fromisoformat(re.sub(" ([+-][0-9]{2}:?[0-9]{2})$", r"\1", offset))
    digits = DIGITS.get(time_format)
    if digits and not (len(text) == digits and text.isdigit() and 1900 <= int(text[:4]) < 2100):
        raise ValueError(f"{text!r} is not a date of {digits} digits")
    return datetime.strptime(text, time_format)


def _microseconds(moment: datetime) -> tuple[int, bool]:
    if moment.tzinfo is None:
        return (moment - _EPOCH) // _MICROSECOND, False
    return (moment - _EPOCH.replace(tzinfo=UTC)) // _MICROSECOND, True
