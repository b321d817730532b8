"""The time of a row in two columns, a date and a time of day: they are joined into one text, and parsed as one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any

from nystream.data.reader import is_empty

CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?(Z|[+-]\d{2}:?\d{2})?")
MIDNIGHT = re.compile(r"[T ]0?0:00(:00(\.0+)?)?$")  # of a date that was saved as a time


def join_time(day: Any, clock: Any) -> str | None:
    """Return a date and a time of day as one text; None if one of them is empty.

    The time of day is text, such as 23:45 or 11:45 PM, or a number of hours. A date that has the time 00:00 is
    accepted.

    Example:
        >>> from nystream.data.timestamps.clock import join_time
        >>> join_time("31.12.2024", "7:30"), join_time("2024-12-31 00:00:00", 7)
        ('31.12.2024 07:30', '2024-12-31 07:00')
    """
    if is_empty(day) or is_empty(clock):
        return None
    return f"{_day_text(day)} {_clock_text(clock)}"


def are_clocks(sample: Sequence[Any]) -> bool:
    """Whether the first values of a column are times of day."""
    return bool(sample) and all(
        isinstance(value, time) or (isinstance(value, str) and CLOCK.fullmatch(value.strip())) for value in sample
    )


def are_hours(sample: Sequence[Any]) -> bool:
    """Whether the first values of a column can be hours of the day."""
    texts = [_whole_text(value) for value in sample]
    return len(set(texts)) > 1 and all(re.fullmatch(r"\d{1,2}", text) and int(text) <= 24 for text in texts)


def _day_text(day: Any) -> str:
    if isinstance(day, datetime) and day.time() == time():
        return day.date().isoformat()
    if isinstance(day, date):
        return day.isoformat()
    return MIDNIGHT.sub("", _whole_text(day))


def _clock_text(clock: Any) -> str:
    if isinstance(clock, time):
        return clock.isoformat()
    text = _whole_text(clock)
    if re.fullmatch(r"\d{1,2}", text):  # hours
        return f"{int(text):02d}:00"
    if re.fullmatch(r"\d{4}(\d{2})?", text):  # 2345, 234500
        return ":".join(re.findall("..", text))
    return re.sub(r"^(\d:)", r"0\1", text)  # ISO 8601 has two digits of hours


def _whole_text(value: Any) -> str:
    """A value as text, without the fraction of a whole number."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()
