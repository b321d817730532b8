"""When a row was measured: how times are written, how far apart rows lie, and where a row belongs after the last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ISO = "iso"  # what datetime.fromisoformat reads
SECONDS, MILLISECONDS = "seconds", "milliseconds"  # since 1970
PATTERNS = tuple(
    f"{day}{clock}"
    for day in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y")
    for clock in ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
)
EPOCHS = {SECONDS: (1e8, 1e10), MILLISECONDS: (1e11, 1e13)}  # from 1973 on, for many years
SAMPLE = 100  # fields that are looked at before all of a column is
LOOSE = 0.1  # of a step: months differ by less, and so do clocks that are not exact

Stamp = np.datetime64


class Place(NamedTuple):
    """Where a row belongs."""

    steps: int  # after the last row: 1 where nothing is missing, 0 where it is too early
    regular: bool  # whether its time is about that many steps later


def parse(value: Any, form: str) -> Stamp:
    """A time in microseconds, by UTC where it names a zone; ValueError where it is not of the form."""
    if isinstance(value, np.datetime64):
        found = value.astype("datetime64[us]")
    elif isinstance(value, datetime):
        found = _stamp(value)
    elif isinstance(value, date):
        found = np.datetime64(value, "us")
    elif form in EPOCHS:
        least, most = EPOCHS[form]
        number = float(value)
        if not least <= number < most:
            raise ValueError(f"{value!r} is no time in {form} since 1970")
        found = np.datetime64(round(number * (1e6 if form == SECONDS else 1e3)), "us")
    elif not isinstance(value, str):
        raise ValueError(f"{value!r} is a {type(value).__name__}, but a time must be text")
    elif form == ISO:
        found = _stamp(datetime.fromisoformat(value.strip()))
    else:
        found = _stamp(datetime.strptime(value.strip(), form))
    if np.isnat(found):
        raise ValueError("it is no time (NaT)")
    return found


def find_form(values: Sequence[Any]) -> str | None:
    """How the times of a column are written, by its first ones; None where it has no times.

    Where a day and a month could be either, the reading that suits the whole column and gives the most even rows.
    """
    known = [value for value in values if value is not None]
    forms = [form for form in (ISO, *PATTERNS, *EPOCHS) if _all(known[:SAMPLE], form) is not None]
    if len(forms) < 2:
        return forms[0] if forms else None
    read = {form: stamps for form in forms if (stamps := _all(known, form)) is not None}
    return max(read, key=lambda form: _evenness(read[form])) if read else forms[0]


def _all(values: Sequence[Any], form: str) -> NDArray[Any] | None:
    """[N] datetime64; None where one of them is not of the form."""
    try:
        stamps = np.array([parse(value, form) for value in values], "datetime64[us]")
    except (ValueError, OverflowError):
        return None
    rises = (np.diff(stamps) > np.timedelta64(0)).all()
    return stamps if len(stamps) and (rises or form not in EPOCHS) else None  # else a number is a quantity


def step_of(stamps: NDArray[Any]) -> np.timedelta64 | None:
    """The most common time between two rows, the shortest of equals; None where no row is later than another."""
    known = stamps[~np.isnat(stamps)]
    apart = np.diff(known)
    apart = apart[apart > np.timedelta64(0)]
    if not len(apart):
        return None
    lengths, counts = np.unique(apart, return_counts=True)
    return lengths[np.argmax(counts)].astype("timedelta64[us]")


def place(last: Stamp, now: Stamp, step: np.timedelta64) -> Place:
    """Where a row measured at `now` belongs after one measured at `last`."""
    exact = float((now - last) / step)
    steps = max(0, round(exact))
    return Place(steps, steps > 0 and abs(exact - steps) <= LOOSE * steps)


def spelled(step: np.timedelta64) -> str:
    """A step in words."""
    seconds = step / np.timedelta64(1, "s")
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return unit if count == 1 else f"{count} {unit}s"
    return f"{seconds:g} seconds"


def _stamp(moment: datetime) -> Stamp:
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "us")


def _evenness(stamps: NDArray[Any]) -> float:
    """Share of the rows that lie one step after the one before."""
    step = step_of(stamps)
    return 0.0 if step is None else float((np.diff(stamps) == step).mean())
