"""What a table holds: its time column, how far apart rows lie, its columns of numbers and of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock
from nystream.data.table import Table, listed
from nystream.data.table_reader import Column, TableReader, category
from nystream.tasks.electricity.features import DAY, WEEK

CATEGORIES = 32  # of a column, at most
HINTS = ("time", "date", "stamp", "epoch", "unix")  # in the name of a column of numbers that are times
NO_TIME = "none"


class Schema(NamedTuple):
    reader: TableReader
    notes: tuple[str, ...]  # what was found and what was left out


def find_reader(
    table: Table,
    targets: Sequence[str],
    time: str | None = None,
    columns: Sequence[str] = (),
    categorical: Sequence[str] = (),
    train: float = 1.0,
) -> Schema:
    """The reader of a table.

    Args:
        table: the rows to learn from.
        targets: columns to forecast.
        time: the column that says when a row was measured; found unless told, "none" for none.
        columns: what tokens are made of, beside the targets; everything that can be used unless told.
        categorical: columns of numbers that are categories.
        train: share of the rows, the first ones, that values to fill with are taken from.
    """
    for what, names in (("target", targets), ("column", columns), ("categorical column", categorical)):
        for name in names:
            if name not in table.names:
                raise ValueError(f"{table.name} has no {what} {name!r}; it has {listed(table.names)}")
    if not targets:
        raise ValueError(f"target is missing: name the column to forecast, one of {listed(table.names)}")
    notes: list[str] = []
    stamp, form, others = _time_column(table, time)
    step = None
    if stamp is not None:
        step = _step(table, stamp, form)
        notes.append(f"time is {stamp!r}, a row every {clock.spelled(step)}")
    else:
        notes.append("no time column: rows are taken as they come")
    notes += [f"{name!r} is left out: it is another time" for name in others if name not in columns]
    decimal = _decimal(table, [name for name in table.names if name not in (stamp, *others)])
    rows = max(1, int(train * len(table)))
    found = []
    wanted = set(columns) | set(targets)
    for name in table.names:
        if name == stamp or (columns and name not in wanted) or (name in others and name not in wanted):
            continue
        made = _column(table, name, decimal, name in categorical, rows)
        if isinstance(made, Column):
            found.append(made)
        elif name in wanted:
            raise ValueError(f"{table.name}: column {name!r} cannot be used: it {made}")
        else:
            notes.append(f"{name!r} is left out: it {made}")
    for name in targets:
        if next(column for column in found if column.name == name).categories:
            wrong = table.numbers(name, decimal)[1]
            field = table.raw(name, wrong or 0)
            raise ValueError(f"target {name!r} must be numbers, but {table.line(wrong or 0)} has {field!r}")
    seconds = None if step is None else float(step / np.timedelta64(1, "s"))
    periods = _periods(table.times(stamp, form)[:rows], step) if stamp is not None and step is not None else ()
    return Schema(TableReader(tuple(found), tuple(targets), stamp, form, seconds, periods, decimal), tuple(notes))


def _time_column(table: Table, named: str | None) -> tuple[str | None, str, list[str]]:
    """Its name, how times are written, and other columns of times."""
    if named == NO_TIME and NO_TIME not in table.names:
        return None, clock.ISO, []
    if named is not None:
        form = clock.find_form(table.values(named))
        if form is None:
            raise ValueError(f"time={named!r} is no column of times; it has {_example(table, named)}")
        return named, form, []
    found = []
    for name in table.names:
        if not (table.is_time(name) or table.is_text(name) or _hinted(name)):
            continue
        numbers = table.numbers(name)[1] is None and not table.is_time(name)
        form = None if numbers and not _hinted(name) else clock.find_form(table.values(name))
        if form is not None:
            found.append((name, form))
    if not found:
        return None, clock.ISO, []
    return *found[0], [name for name, _ in found[1:]]


def _step(table: Table, name: str, form: str) -> np.timedelta64:
    stamps = table.times(name, form)
    apart = np.diff(stamps[~np.isnat(stamps)])
    if len(apart) and (apart < np.timedelta64(0)).mean() > 0.5:
        raise ValueError(f"{table.name}: {name!r} falls from row to row; sort the rows, oldest first")
    step = clock.step_of(stamps)
    if step is None:
        raise ValueError(f"{table.name}: {name!r} never rises, so that no step of time can be found")
    return step


def _periods(stamps: NDArray[Any], step: np.timedelta64) -> tuple[float, ...]:
    """Hours of the cycles that rows are close enough for, and that training meets twice: else a place is a date."""
    known, hour = stamps[~np.isnat(stamps)], np.timedelta64(1, "h")
    span = (known.max() - known.min()) / hour if len(known) else 0.0
    return tuple(period for period in (DAY, WEEK) if 2 * (step / hour) <= period <= span / 2)


def _decimal(table: Table, names: Sequence[str]) -> str:
    """A comma, where numbers with a point would leave a column out."""
    for name in names:
        if table.is_text(name) and table.numbers(name)[1] is not None and table.numbers(name, ",")[1] is None:
            return ","
    return "."


def _column(table: Table, name: str, decimal: str, categorical: bool, rows: int) -> Column | str:
    """The column, or why it cannot be used."""
    numbers, wrong = table.numbers(name, decimal)
    if wrong is None and not categorical:
        if not name:
            return "has no name, and seems to number the rows"
        if np.isinf(numbers).any():
            row = int(np.isinf(numbers).argmax())
            return f"has {table.raw(name, row)!r} in {table.line(row)}, which is not finite"
        known = numbers[:rows][~np.isnan(numbers[:rows])]
        if not len(known):
            return "is empty" if np.isnan(numbers).all() else "is empty in every row that is trained on"
        if known.min() == known.max():
            return f"is {known[0]:g} in every row" + " that is trained on" * (rows < len(table))
        return Column(name, usual=float(np.median(known)))
    if not (table.is_text(name) or wrong is None):
        return "holds neither numbers nor text"
    fields = [None if field is None else category(field) for field in table.values(name)]
    there = [field for field in fields if field is not None]
    met = sorted(set(there))
    if len(met) > CATEGORIES:
        return f"is text of {len(met)} different values, such as {there[0]!r}; at most {CATEGORIES} can be categories"
    if len(met) < 2:
        return f"is {met[0]!r} in every row" if met else "is empty"
    first = [field for field in fields[:rows] if field is not None] or there
    return Column(name, tuple(met), float(met.index(max(met, key=first.count))))


def _hinted(name: str) -> bool:
    return any(hint in name.lower() for hint in HINTS)


def _example(table: Table, name: str) -> str:
    known = [value for value in table.values(name) if value is not None]
    return repr(known[0]) if known else "none: it is empty"
