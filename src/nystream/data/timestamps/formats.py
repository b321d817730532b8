"""The formats of timestamps, and detecting which one a column uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.timestamps.parse import DIGITS, EPOCHS, ISO, parse_time
from nystream.data.timestamps.spacing import TOLERANCE, typical_step

DATES = (
    *("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y"),
    *("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d"),
    *("%d-%m-%Y", "%m-%d-%Y"),
)
HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (ISO, *(f"{date}{hour}" for date in DATES for hour in HOURS), "%Y-%m", "%Y/%m", "%m/%Y", *DIGITS, *EPOCHS)
EXAMPLES = "ISO 8601, 31.12.2024 23:45, 12/31/2024 11:45 PM, 2024-12, 2024123123, seconds since 1970, …"
SAMPLE_SIZE = 100  # values that are tried before the whole column is
MIN_SHARE = 0.9  # of the values must be times; the others are then reported with their lines


def check_format(time_format: str) -> None:
    """Raise if this cannot be a time format."""
    if "%" not in time_format and time_format not in (ISO, *EPOCHS):
        known = ", ".join((ISO, *EPOCHS))
        raise ValueError(f"time_format={time_format!r} must be like '%d.%m.%Y %H:%M', or one of {known}")


def matches(sample: Sequence[Any], time_format: str) -> bool:
    """Whether these values, the first of a column, look like times in the format."""
    return _share(sample, time_format, MIN_SHARE) > 0


def candidates(sample: Sequence[Any], named: bool = False) -> list[str]:
    """Return the formats that match the first values of a column; if the user named the column, the best ones."""
    formats = (*FORMATS, "%Y") if named else FORMATS
    shares = {time_format: _share(sample, time_format, 0.0 if named else MIN_SHARE) for time_format in formats}
    best = max(shares.values())
    matching = [time_format for time_format, share in shares.items() if share and share == best]
    # A date in digits could also be a number of seconds since 1970, many years from now.
    return [time_format for time_format in matching if time_format in DIGITS] or matching


def find_format(values: Sequence[Any], formats: Sequence[str]) -> str:
    """Return the format that matches the most values and gives the most regular rows.

    Raises ValueError if several formats do, because day and month can be swapped.
    """
    known = [value for value in values if value is not None]
    merit = {time_format: _merit(known, time_format) for time_format in formats}
    best = [time_format for time_format in formats if merit[time_format] == max(merit.values())]
    if len(best) > 1:
        options = " or ".join(f"`time_format={time_format!r}`" for time_format in best)
        raise ValueError(f"{known[0]!r} can be read in several ways: give {options}")
    return best[0]


def _share(sample: Sequence[Any], time_format: str, required: float) -> float:
    """The share of the values that match the format; 0 if it is less than required."""
    failed = 0
    for value in sample:
        try:
            parse_time(value, time_format)
        except (ValueError, OverflowError):
            failed += 1
            # A column of numbers is one of times only if all of them can be.
            if failed > (1 - required) * len(sample) or (required and time_format in EPOCHS):
                return 0.0
    return 1.0 - failed / len(sample) if sample else 0.0


def _merit(values: Sequence[Any], time_format: str) -> tuple[int, float]:
    """The number of values that match the format, and the share of rows about one step after the previous one."""
    times = []
    for value in values:
        try:
            times.append(parse_time(value, time_format)[0])
        except (ValueError, OverflowError):
            continue
    stamps: NDArray[Any] = np.array(times, np.int64).view("datetime64[us]")
    if len(stamps) and stamps[-1] < stamps[0]:  # newest first
        stamps = stamps[::-1]
    step = typical_step(stamps)
    regular = 0.0 if step is None else float((np.abs(np.diff(stamps) / step - 1) <= TOLERANCE).mean())
    return len(times), regular
