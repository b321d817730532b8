"""The column that says when a row was measured, and how far apart rows lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nystream.data import clock, time_forms
from nystream.data.table import Table, counted
from nystream.data.timeline import Pace, find_pace

HINTS = ("time", "date", "stamp", "epoch", "unix", "datum", "zeit")  # in the name of a column of numbers that are times
NAMES = ("t", "ts")
NO_TIME = "none"
MANY = 0.1  # of the rows: more of one kind of disorder is no slip


class TimeColumn(NamedTuple):
    """A column of times."""

    name: str
    form: str  # how they are written
    pace: Pace
    note: str


def find_time(table: Table, named: str | None = None, form: str = "") -> tuple[TimeColumn | None, list[str]]:
    """The column of times, if there is one, and columns that are times besides.

    Args:
        table: the rows.
        named: its name; the first column of times unless told, "none" for none.
        form: how times are written; found unless told.
    """
    if form:
        time_forms.check_form(form)
    chosen = named if named != NO_TIME or named in table.names else None
    if named is None:
        found = [name for name in table.names if _is_time(table, name, form)]
        # One that never changes says when the table was written.
        moving = [name for name in found if len(set(table.sample(name, time_forms.SAMPLE))) > 1]
        chosen = next(iter(moving or found), None)
    if form and chosen is None:
        raise ValueError(f"time_format={form!r} fits no column of {table.name}; name the column with --time")
    others = [name for name in table.names if name != chosen and _is_time(table, name, "")]
    return None if chosen is None else _timed(table, chosen, form or _form(table, chosen, named is not None)), others


def _is_time(table: Table, name: str, form: str) -> bool:
    """Whether a column seems to be one of times. Numbers are, where they can be and the name says so."""
    sample = table.sample(name, time_forms.SAMPLE)
    if table.is_time(name):
        return time_forms.fits(sample, clock.ISO)
    number = table.numbers(name)[1] is None
    if (number and not (form or _hinted(name))) or not (number or table.is_text(name)):
        return False
    return time_forms.fits(sample, form) if form else bool(time_forms.forms_of(sample))


def _hinted(name: str) -> bool:
    return name.lower() in NAMES or any(hint in name.lower() for hint in HINTS)


def _form(table: Table, name: str, named: bool) -> str:
    if table.is_time(name):
        return clock.ISO
    sample = table.sample(name, time_forms.SAMPLE)
    forms = time_forms.forms_of(sample, named)
    if not forms:
        held = repr(sample[0]) if sample else "none: it is empty"
        raise ValueError(
            f"time={name!r} is no column of times as they are known here ({time_forms.KNOWN}); it has {held}; "
            f"--time-format says how they are written, such as '%d %b %Y %H:%M'"
        )
    try:
        return forms[0] if len(forms) == 1 else time_forms.find_form(table.values(name), forms)
    except ValueError as error:
        raise ValueError(f"{table.name}: the time {name!r} is not clear: {error}") from error


def _timed(table: Table, name: str, form: str) -> TimeColumn:
    stamps = table.times(name, form)
    rows = np.flatnonzero(~np.isnat(stamps))
    known = stamps[rows]
    apart = np.diff(known)
    where = f"{table.name}: the time {name!r}"
    again = len(known) - len(np.unique(known))
    if again > MANY * len(known):
        raise ValueError(
            f"{where} comes again in {counted(again, 'row')}; give each series a file of its own, "
            f"or, where a date and an hour are two columns, write them as one; --time names another column"
        )
    # Where whole days are in disorder, few rows are earlier than the one before, but many earlier than one before.
    late = known < np.maximum.accumulate(known)
    if late.sum() > MANY * len(known):
        line = table.line(int(rows[late][0]))
        raise ValueError(f"{where} is not in order, see {line}; sort the rows, oldest first")
    step = clock.step_of(stamps)
    if step is None:
        raise ValueError(
            f"{where} has less than two times, so that no step can be found; --time none takes rows as they come"
        )
    later = apart[apart > np.timedelta64(0)]
    if not clock.even(stamps, step):
        least, middle, most = (clock.amount(one) for one in (later.min(), np.median(later), later.max()))
        raise ValueError(
            f"{where} is not even: rows are {least} to {most} apart, half of them less than {middle}; "
            f"--time none takes rows as they come"
        )
    pace = find_pace(stamps, step)
    about = "" if pace.months or (later % step == np.timedelta64(0)).all() else "about "
    return TimeColumn(name, form, pace, f"time is {name!r}, a row {about}every {pace.amount().removeprefix('1 ')}")
