"""Finding the time column of a table, and the time step between its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.settings import names_in
from nystream.data.table import Table, counted, joined_names, listed
from nystream.data.timestamps import formats
from nystream.data.timestamps.clock import are_clocks, are_hours, join_time
from nystream.data.timestamps.parse import ISO
from nystream.data.timestamps.spacing import Spacing, duration, find_spacing, is_regular, typical_step
from nystream.data.timestamps.zone import local_times, to_utc

NAME_PARTS = ("time", "date", "stamp", "epoch", "unix", "datum", "zeit")  # in the names of time columns of numbers
NAMES = ("t", "ts")
NO_TIME = "none"
MAX_DISORDER = 0.1  # share of the rows that may be repeated or out of order


class TimeColumn(NamedTuple):
    """The column that says when each row was measured, or the two that do."""

    name: str
    clock: str | None  # the column of the time of day, if that of the name has dates only
    time_format: str
    spacing: Spacing
    note: str


def find_time(
    table: Table, named: str | Sequence[str] | None = None, time_format: str = "", timezone: str = ""
) -> tuple[TimeColumn | None, list[str]]:
    """Return the time column, if there is one, and the names of other columns that contain times.

    Args:
        table: The rows.
        named: Name of the time column, or those of the date and of the time of day, which a comma may separate; by
            default the first column of times, with a column of times of day if it has dates only; "none" for none.
        time_format: How times are written; auto-detected by default.
        timezone: The time zone of local times and of the calendar; "" for none.
    """
    if time_format:
        formats.check_format(time_format)
    chosen = _detected(table, time_format) if named is None else _named(table, named)
    if time_format and not chosen:
        raise ValueError(f"time_format={time_format!r} matches no column of {table.name}; name the column with `time`")
    others = [name for name in table.names if name not in chosen and _is_time(table, name, "")]
    if not chosen:
        if timezone:
            raise ValueError(f"timezone={timezone!r}: {table.name} has no time column; name it with `time`")
        return None, others
    name, clock = chosen[0], chosen[1] if len(chosen) == 2 else None
    time_format = time_format or _format(table, chosen, named is not None)
    ordered = oldest_first(table, name, time_format, clock, timezone)
    return _time_column(ordered, name, clock, time_format, timezone), others


def oldest_first(table: Table, name: str, time_format: str, clock: str | None = None, timezone: str = "") -> Table:
    """Return the table with its rows in reverse order if they are newest first, all of them; otherwise as it is."""
    stamps = table.times(name, time_format, clock)
    known = stamps[~np.isnat(stamps)]
    if not len(known) or known[-1] >= known[0]:
        return table
    turned = table.turn()
    stamps = _moments(turned, name, clock, time_format, timezone)
    earlier = np.diff(stamps[~np.isnat(stamps)]) < np.timedelta64(0)
    return table if earlier.any() else turned


def _moments(table: Table, name: str, clock: str | None, time_format: str, timezone: str) -> NDArray[Any]:
    """When the rows were measured, [N]: in UTC, if there is a time zone; otherwise as they are written."""
    stamps = table.times(name, time_format, clock)
    if not timezone or table.zoned(name, time_format, clock):
        return stamps
    moments, step, due = stamps.copy(), typical_step(stamps), None
    for row in np.flatnonzero(~np.isnat(stamps)).tolist():
        try:
            moment = to_utc(int(stamps[row].astype(np.int64)), timezone, due)
        except (ValueError, OverflowError) as error:
            raise table.bad_time(row, name, clock, error) from error
        moments[row] = np.datetime64(moment, "us")
        due = None if step is None else moment + int(step.astype(np.int64))
    return moments


def _named(table: Table, named: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that the user named."""
    names = names_in(named if isinstance(named, str) else tuple(named), table.names)
    if names == (NO_TIME,) and NO_TIME not in table.names:
        return ()
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise ValueError(f"time={named!r} must name one column, or two: that of the date and that of the time of day")
    for name in names:
        if name not in table.names:
            raise ValueError(f"time={named!r}: {table.name} has no column {name!r}; it has {listed(table.names)}")
    return names


def _detected(table: Table, time_format: str) -> tuple[str, ...]:
    """The first column of times, with one of times of day if it has dates only; empty if there is none."""
    times = [name for name in table.names if _is_time(table, name, time_format)]
    # A time that never changes is that of the whole table, such as its export.
    varying = [name for name in times if len(set(table.sample(name, formats.SAMPLE_SIZE))) > 1]
    chosen = next(iter(varying or times), None)
    # With one day of rows, the date never changes.
    days = [chosen] if chosen is not None else [name for name in table.names if _is_time(table, name, "")]
    for day in days:
        if (clock := _clock_of(table, day)) is not None and (
            not time_format or formats.matches(_sample(table, (day, clock)), time_format)
        ):
            return day, clock
    return () if chosen is None else (chosen,)


def _clock_of(table: Table, day: str, hours: bool = False) -> str | None:
    """The column of times of day that belongs to one of repeated dates; with `hours`, one of hours of the day."""
    sample = table.sample(day, formats.SAMPLE_SIZE)
    if not formats.candidates([join_time(value, "00:00") for value in sample]):
        return None  # it has times of its own
    values = [value for value in table.values(day) if value is not None]
    if len(values) - len(set(values)) <= MAX_DISORDER * len(values):
        return None
    test = are_hours if hours else are_clocks
    return next((name for name in table.names if name != day and test(table.sample(name, formats.SAMPLE_SIZE))), None)


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


def _sample(table: Table, names: tuple[str, ...]) -> list[Any]:
    """The first times of a column, or of a date and a time of day, as they are written."""
    return [field for field in table.time_fields(*names) if field is not None][: formats.SAMPLE_SIZE]


def _format(table: Table, names: tuple[str, ...], named: bool) -> str:
    if len(names) == 1 and table.is_time(names[0]):
        return ISO
    sample = _sample(table, names)
    candidates = formats.candidates(sample, named)
    if not candidates:
        value = f"its first value is {sample[0]!r}" if sample else "it is empty"
        kind = "is not a column of times" if len(names) == 1 else "are not a date and a time of day"
        raise ValueError(
            f"time={','.join(names)!r} {kind} in a known format ({formats.EXAMPLES}): {value}; "
            f"`time_format` gives another format, such as '%d %b %Y %H:%M'"
        )
    try:
        return candidates[0] if len(candidates) == 1 else formats.find_format(table.time_fields(*names), candidates)
    except ValueError as error:
        raise ValueError(f"{table.name}: {_title(names)} is ambiguous: {error}") from error


def _title(names: tuple[str, ...]) -> str:
    """The time column, or both, in a message."""
    return f"time column{'s' * (len(names) > 1)} {joined_names(*names)}"


def _time_column(table: Table, name: str, clock: str | None, time_format: str, timezone: str) -> TimeColumn:
    title = _title((name,) if clock is None else (name, clock))
    stamps = _moments(table, name, clock, time_format, timezone)
    rows = np.flatnonzero(~np.isnat(stamps))
    known = stamps[rows]
    column = f"{table.name}: {title}"
    repeated = len(known) - len(np.unique(known))
    if repeated > MAX_DISORDER * len(known):
        raise ValueError(
            f"{column} repeats a time in {counted(repeated, 'row')}; if the table has several series, name their "
            f"column with `series`, {_two_columns(table, name, clock)}; `time` selects another column"
        )
    # If whole days are out of order, few rows are earlier than the previous row, but many than some row before.
    late = known < np.maximum.accumulate(known)
    if late.sum() > MAX_DISORDER * len(known):
        line = table.line(int(rows[late][0]))
        raise ValueError(f"{column} is not in order, see {line}; sort the rows by time, oldest first")
    step = typical_step(stamps)
    if step is None:
        raise ValueError(
            f"{column} has fewer than two different times, so the time step is unknown; "
            f"`time='none'` takes the rows in order"
        )
    apart = np.diff(known)
    apart = apart[apart > np.timedelta64(0)]
    if not is_regular(stamps, step):
        least, median, most = (duration(length) for length in (apart.min(), np.median(apart), apart.max()))
        raise ValueError(
            f"{column} is irregular: rows are {least} to {most} apart, {median} in the median; "
            f"`time='none'` takes the rows in order"
        )
    spacing = find_spacing(local_times(known, timezone) if timezone else known, step)
    about = "" if spacing.months or (apart % step == np.timedelta64(0)).all() else "about "
    note = f"{title}, one row {about}every {str(spacing).removeprefix('1 ')}"
    note += f", local time of {timezone}" if timezone else ""
    return TimeColumn(name, clock, time_format, spacing, note)


def _two_columns(table: Table, name: str, clock: str | None) -> str:
    """What to do about dates that repeat because the time of day is in another column."""
    if clock is not None:
        return "or name other columns of the date and the time of day"
    example = f"{name},{_clock_of(table, name) or _clock_of(table, name, hours=True) or 'TIME'}"
    return f"or, if the time of day is in another column, name both: `time={example!r}`"
