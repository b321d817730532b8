"""Finding the time column of a table, and the time step between its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nystream.data.table import Table, counted
from nystream.data.timestamps import formats
from nystream.data.timestamps.parse import ISO
from nystream.data.timestamps.spacing import Spacing, duration, find_spacing, is_regular, typical_step

NAME_PARTS = ("time", "date", "stamp", "epoch", "unix", "datum", "zeit")  # in the names of time columns of numbers
NAMES = ("t", "ts")
NO_TIME = "none"
MAX_DISORDER = 0.1  # share of the rows that may be repeated or out of order


class TimeColumn(NamedTuple):
    """The column that says when each row was measured."""

    name: str
    time_format: str
    spacing: Spacing
    note: str


def find_time(table: Table, named: str | None = None, time_format: str = "") -> tuple[TimeColumn | None, list[str]]:
    """Return the time column, if there is one, and the names of other columns that contain times.

    Args:
        table: The rows.
        named: Name of the time column; by default the first column of times, "none" for none.
        time_format: How times are written; auto-detected by default.
    """
    if time_format:
        formats.check_format(time_format)
    chosen = named if named != NO_TIME or named in table.names else None
    if named is None:
        times = [name for name in table.names if _is_time(table, name, time_format)]
        # A time that never changes is that of the whole table, such as its export.
        varying = [name for name in times if len(set(table.sample(name, formats.SAMPLE_SIZE))) > 1]
        chosen = next(iter(varying or times), None)
    if time_format and chosen is None:
        raise ValueError(f"time_format={time_format!r} matches no column of {table.name}; name the column with --time")
    others = [name for name in table.names if name != chosen and _is_time(table, name, "")]
    if chosen is None:
        return None, others
    return _time_column(table, chosen, time_format or _format(table, chosen, named is not None)), others


def _is_time(table: Table, name: str, time_format: str) -> bool:
    """Whether a column seems to contain times. For a column of numbers, its name must say so too."""
    sample = table.sample(name, formats.SAMPLE_SIZE)
    if table.is_time(name):
        return formats.matches(sample, ISO)
    number = table.numbers(name)[1] is None
    hinted = name.lower() in NAMES or any(part in name.lower() for part in NAME_PARTS)
    if (number and not (time_format or hinted)) or not (number or table.is_text(name)):
        return False
    return formats.matches(sample, time_format) if time_format else bool(formats.candidates(sample))


def _format(table: Table, name: str, named: bool) -> str:
    if table.is_time(name):
        return ISO
    sample = table.sample(name, formats.SAMPLE_SIZE)
    candidates = formats.candidates(sample, named)
    if not candidates:
        value = f"its first value is {sample[0]!r}" if sample else "it is empty"
        raise ValueError(
            f"time={name!r} is not a column of times in a known format ({formats.EXAMPLES}): {value}; "
            f"--time-format gives another format, such as '%d %b %Y %H:%M'"
        )
    try:
        return candidates[0] if len(candidates) == 1 else formats.find_format(table.values(name), candidates)
    except ValueError as error:
        raise ValueError(f"{table.name}: time column {name!r} is ambiguous: {error}") from error


def _time_column(table: Table, name: str, time_format: str) -> TimeColumn:
    stamps = table.times(name, time_format)
    rows = np.flatnonzero(~np.isnat(stamps))
    known = stamps[rows]
    column = f"{table.name}: time column {name!r}"
    repeated = len(known) - len(np.unique(known))
    if repeated > MAX_DISORDER * len(known):
        raise ValueError(
            f"{column} repeats a time in {counted(repeated, 'row')}; put each series into a file of its own, "
            f"or, if date and hour are in two columns, combine them into one; --time selects another column"
        )
    # If whole days are out of order, few rows are earlier than the previous row, but many than some row before.
    late = known < np.maximum.accumulate(known)
    if late.sum() > MAX_DISORDER * len(known):
        line = table.line(int(rows[late][0]))
        raise ValueError(f"{column} is not in order, see {line}; sort the rows, oldest first")
    step = typical_step(stamps)
    if step is None:
        raise ValueError(
            f"{column} has fewer than two different times, so the time step is unknown; "
            f"--time none takes the rows in order"
        )
    apart = np.diff(known)
    apart = apart[apart > np.timedelta64(0)]
    if not is_regular(stamps, step):
        least, median, most = (duration(length) for length in (apart.min(), np.median(apart), apart.max()))
        raise ValueError(
            f"{column} is irregular: rows are {least} to {most} apart, {median} in the median; "
            f"--time none takes the rows in order"
        )
    spacing = find_spacing(stamps, step)
    about = "" if spacing.months or (apart % step == np.timedelta64(0)).all() else "about "
    note = f"time column {name!r}, one row {about}every {str(spacing).removeprefix('1 ')}"
    return TimeColumn(name, time_format, spacing, note)
