"""What a table holds: its time column, how far apart rows lie, its columns of numbers and of categories."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import one_of
from nystream.data import numbers
from nystream.data.calendar import DAY, WEEK
from nystream.data.table import Table, listed
from nystream.data.table_reader import Column, TableReader, category
from nystream.data.time_column import find_time

CATEGORIES = 32  # of a column, at most
MOSTLY = 0.5  # share of numbers, from which a column is one of numbers that has a slip


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
    time_format: str = "",
    decimal: str = "",
) -> Schema:
    """The reader of a table.

    Args:
        table: the rows to learn from.
        targets: columns to forecast.
        time: the column that says when a row was measured; found unless told, "none" for none.
        columns: what tokens are made of, beside the targets; everything that can be used unless told.
        categorical: columns of numbers that are categories.
        train: share of the rows, the first ones, that categories and values to fill with are taken from.
        time_format: how times are written, as for `datetime.strptime`; found unless told.
        decimal: what stands before the fraction of a number, "." or ","; found unless told.
    """
    _check_names(table, targets, columns, categorical)
    if decimal:
        one_of("decimal", decimal, (".", ","))
    when, others = find_time(table, time, time_format)
    stamp = None if when is None else when.name
    if stamp in targets:
        raise ValueError(f"target {stamp!r} is the column of times; name a column of numbers")
    notes = ["no time column: rows are taken as they come" if when is None else when.note]
    notes += [
        f"{name!r} is left out: it is {'a' if when is None else 'another'} time"
        for name in others
        if name not in columns
    ]
    wanted = set(columns) | set(targets)
    used = [name for name in table.names if name != stamp and (name in wanted or not (columns or name in others))]
    texts = {name: table.texts(name) for name in used if table.is_text(name) and name not in categorical}
    try:
        decimal = numbers.find_marks(texts, decimal, table.separator)
    except ValueError as error:
        raise ValueError(f"{table.name}: {error}") from error
    notes += numbers.spelled(decimal)
    rows = max(1, int(train * len(table)))
    found = []
    for name in used:
        made = _column(table, name, decimal, name in categorical, name in wanted, rows)
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
            raise ValueError(
                f"target {name!r} must be numbers, but {table.line(wrong or 0)} has {field!r}; "
                f"classes are learned from a folder of feature files (.npy, .npz), not from a table"
            )
    reader = TableReader(tuple(found), tuple(targets), periods=(), decimal=decimal, centred=True)
    if when is None:
        return Schema(reader, tuple(notes))
    timed = dataclasses.replace(
        reader,
        time=when.name,
        form=when.form,
        step=float(when.pace.step / np.timedelta64(1, "s")),
        periods=_periods(table.times(when.name, when.form)[:rows], when.pace.step),
        months=when.pace.months,
        day=when.pace.day,
        zoned=table.zoned(when.name, when.form),
    )
    return Schema(timed, tuple(notes))


def _check_names(table: Table, targets: Sequence[str], columns: Sequence[str], categorical: Sequence[str]) -> None:
    for what, names in (("target", targets), ("column", columns), ("categorical column", categorical)):
        for name in names:
            if name not in table.names:
                raise ValueError(f"{table.name} has no {what} {name!r}; it has {listed(table.names)}")
            if names.count(name) > 1:
                raise ValueError(f"{what} {name!r} is named more than once")
    if not targets:
        some = [name for name in table.names if any(table.numbers(name, mark)[1] is None for mark in ".,")]
        raise ValueError(f"target is missing: name the column to forecast, one of {listed(some or table.names)}")


def _periods(stamps: NDArray[Any], step: np.timedelta64) -> tuple[float, ...]:
    """Hours of the cycles that rows are close enough for, and that training meets twice: else a place is a date."""
    known, hour = stamps[~np.isnat(stamps)], np.timedelta64(1, "h")
    span = (known.max() - known.min()) / hour if len(known) else 0.0
    return tuple(period for period in (DAY, WEEK) if 2 * (step / hour) <= period <= span / 2)


def _column(table: Table, name: str, decimal: str, categorical: bool, wanted: bool, rows: int) -> Column | str:
    """The column, or why it cannot be used."""
    found, wrong = table.numbers(name, decimal)
    # A truth is a category in every format: a CSV file can only have it as text.
    if wrong is None and not categorical and not table.is_truth(name):
        if not name:
            return "has no name, and seems to number the rows"
        if np.isinf(found).any():
            row = int(np.isinf(found).argmax())
            return f"has {table.raw(name, row)!r} in {table.line(row)}, which is not finite"
        known = found[:rows][~np.isnan(found[:rows])]
        if not len(known):
            return "is empty" if np.isnan(found).all() else "is empty in every row that is trained on"
        if known.min() == known.max():
            return f"is {known[0]:g} in every row" + " that is trained on" * (rows < len(table))
        if not wanted and len(known) > 2 and np.allclose(np.diff(known), known[1] - known[0]):
            return "counts the rows, and goes on to numbers that training has not met"
        return Column(name, usual=float(np.median(known)))
    if not (table.is_text(name) or wrong is None):
        return "holds neither numbers nor text"
    # Those of training alone: a category that comes later is new, then as in a live stream.
    there = [category(field) for field in table.values(name)[:rows] if field is not None]
    met = sorted(set(there))
    if len(met) > CATEGORIES:
        # A column of numbers with a slip: that field is what the user has to mend.
        if wrong is not None and np.isfinite(found).mean() >= MOSTLY:
            return f"has {table.raw(name, wrong)!r} in {table.line(wrong)}, which is not a number"
        other = "." if decimal[0] == "," else ","
        if wrong is not None and table.numbers(name, other)[1] is None:
            return f"has {table.raw(name, wrong)!r} in {table.line(wrong)}, not a number with a {decimal[0]!r} in it"
        unit = re.fullmatch(r"[$€£¥] ?[-+]?\d[\d.,]*|[-+]?\d[\d.,]* ?[^\d\s]{1,4}", there[0].strip())
        way = "take out what stands beside the numbers" if unit else f"at most {CATEGORIES} can be categories"
        return f"is text of {len(met)} different values, such as {there[0]!r}; {way}"
    if len(met) < 2:
        trained = " in every row that is trained on" if rows < len(table) else ""
        return f"is {met[0]!r}{trained or ' in every row'}" if met else f"is empty{trained}"
    return Column(name, tuple(met), float(met.index(max(met, key=there.count))))
