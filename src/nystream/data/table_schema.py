"""Finding out what a table contains: its time column, its columns of numbers and of categories."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import one_of
from nystream.data import numbers
from nystream.data.calendar import DAY, WEEK
from nystream.data.columns import Column, category_name
from nystream.data.lags import choose_lags, harmonics
from nystream.data.series import SeriesTables
from nystream.data.series_reader import static_columns, typical_length, with_series
from nystream.data.table import Table, listed
from nystream.data.table_reader import TableReader, ahead_name
from nystream.data.timestamps.column import find_time, oldest_first

MAX_CATEGORIES = 32  # of a column
COUNTS = "counts the rows, so its later values are not in the training data"
MOSTLY_NUMBERS = 0.5  # share of numbers above which the other fields of a column are treated as errors


def find_reader(
    table: Table,
    targets: Sequence[str],
    time: str | Sequence[str] | None = None,
    columns: Sequence[str] = (),
    categorical: Sequence[str] = (),
    train: float = 1.0,
    time_format: str = "",
    decimal: str = "",
    horizons: Sequence[int] = (),
    timezone: str = "",
    known: Mapping[str, int] | None = None,
    series: SeriesTables | None = None,
    counts: Sequence[int] = (),
) -> tuple[TableReader, tuple[str, ...]]:
    """Determine the reader of a table, with notes on what is used and what is dropped; arguments as in `forecast`.

    Categories and typical values are taken from the first rows alone, of which `train` is the share. With `horizons`,
    tokens also have the lags and harmonics that forecasts so many rows ahead need, and numbers come first in them, the
    targets before all others. `known` maps columns that are known in advance to the number of rows. Of several series,
    whose rows `table` has, the longest has the times, and `counts` are the numbers of the first rows of each.
    """
    known = known or {}
    _check_names(table, targets, columns, categorical, tuple(known))
    timed = table if series is None else series.longest
    if series is not None:
        _check_series(series.column, targets, columns, categorical, tuple(known), time)
    if decimal:
        one_of("decimal", decimal, (".", ","))
    time_column, other_times = find_time(timed, time, time_format, timezone)
    if time_column is not None:
        timed = oldest_first(timed, time_column.name, time_column.time_format, time_column.clock, timezone)
    if series is None:
        table, rows, rows_timed = timed, max(1, int(train * len(table))), max(1, int(train * len(table)))
    else:
        table, rows = series.first_rows(counts)
        rows_timed = counts[max(range(len(counts)), key=lambda place: len(series.tables[place]))]
    time_names = () if time_column is None else (time_column.name, time_column.clock)
    for name in set(targets) & set(time_names):
        raise ValueError(f"target {name!r} is the time column; name a column of numbers")
    notes = ["no time column: rows are taken in order" if time_column is None else time_column.note]
    kind = "a time" if time_column is None else "another time"
    notes += [f"{name!r} is dropped: it is {kind}" for name in other_times if name not in columns]
    for name in set(known) & set(time_names):
        raise ValueError(f"known column {name!r} is the time column, which every forecast already has")
    wanted = {*columns, *targets, *known}
    used = [
        name
        for name in table.names
        if name not in (*time_names, None if series is None else series.column)
        and (name in wanted or not (columns or name in other_times))
    ]
    texts = {name: table.texts(name) for name in used if table.is_text(name) and name not in categorical}
    try:
        decimal = numbers.find_marks(texts, decimal, table.separator)
    except ValueError as error:
        raise ValueError(f"{table.name}: {error}") from error
    notes += numbers.describe_marks(decimal)
    usable = []
    for name in used:
        column = _column(table, name, decimal, name in categorical, name in wanted, rows)
        if series is not None and isinstance(column, Column) and not column.categories and name not in wanted:
            column = COUNTS if _counts_rows(timed.numbers(name, decimal)[0]) else column
        if isinstance(column, Column):
            usable.append(column)
        elif name in wanted:
            raise ValueError(f"{table.name}: column {name!r} cannot be used: it {column}")
        else:
            notes.append(f"{name!r} is dropped: it {column}")
    for name in targets:
        if next(column for column in usable if column.name == name).categories:
            row = table.numbers(name, decimal)[1] or 0
            raise ValueError(
                f"target {name!r} must be numbers, but {table.line(row)} has {table.raw(name, row)!r}; "
                f"classes are learned from a folder of feature files (.npy, .npz), not from a table"
                f"{_footer(table, name, decimal)}"
            )
    reader = TableReader(
        tuple(usable),
        tuple(targets),
        periods=(),
        decimal=decimal,
        centred=True,
        known=tuple(known),
        known_rows=max(known.values(), default=0),
    )
    notes += [f"{name!r} is known in advance: live records have it as {ahead_name(name)!r}" for name in known]
    if time_column is not None:
        name, clock, time_format, spacing, _ = time_column
        reader = dataclasses.replace(
            reader,
            time=name,
            clock=clock,
            form=time_format,
            step=float(spacing.step / np.timedelta64(1, "s")),
            periods=_periods(timed.times(name, time_format, clock)[:rows_timed], spacing.step),
            months=spacing.months,
            day=spacing.day,
            timezone=timezone,
            zoned=timed.zoned(name, time_format, clock),
        )
    if horizons:
        reader = _with_lags(reader, horizons, rows if series is None else typical_length(counts))
    if series is not None:
        static = static_columns(series, [column.name for column in reader.columns if not column.categories], decimal)
        notes += [f"{listed(static)}: the same in all rows of a series, so not scaled by series"] if static else []
        reader = with_series(reader, series.column, static)
    return reader, tuple(notes)


def _check_series(
    series: str,
    targets: Sequence[str],
    columns: Sequence[str],
    categorical: Sequence[str],
    known: Sequence[str],
    time: str | Sequence[str] | None,
) -> None:
    times = () if time is None else (time,) if isinstance(time, str) else time
    kinds = {"target": targets, "columns": columns, "categorical": categorical, "known": known, "time": times}
    for what, names in kinds.items():
        if series in names:
            raise ValueError(f"{what}={series!r} is also the series column, which names the series of a row")


def _with_lags(reader: TableReader, horizons: Sequence[int], rows: int) -> TableReader:
    step = None if reader.months else reader.step  # months have no fixed number of rows in a cycle
    places = {target: place for place, target in enumerate(reader.targets)}
    return dataclasses.replace(
        reader,
        columns=tuple(
            sorted(reader.columns, key=lambda column: (places.get(column.name, len(places)), bool(column.categories)))
        ),
        lags=choose_lags(step, horizons, rows, len(reader.targets)),
        ahead=horizons[-1] if step else 0,
        periods=harmonics(reader.periods, step / 3600) if step else reader.periods,
    )


def _check_names(
    table: Table,
    targets: Sequence[str],
    columns: Sequence[str],
    categorical: Sequence[str],
    known: Sequence[str],
) -> None:
    kinds = {"target": targets, "column": columns, "categorical column": categorical, "known column": known}
    for what, names in kinds.items():
        for name in names:
            if name not in table.names:
                raise ValueError(f"{table.name} has no {what} {name!r}; it has {listed(table.names)}")
            if names.count(name) > 1:
                raise ValueError(f"{what} {name!r} is named more than once")
    if not targets:
        numeric = [name for name in table.names if any(table.numbers(name, mark)[1] is None for mark in ".,")]
        raise ValueError(f"target is missing: name the column to forecast, one of {listed(numeric or table.names)}")


def _periods(stamps: NDArray[Any], step: np.timedelta64) -> tuple[float, ...]:
    """Hours of the cycles that rows are close enough for and that the training data spans twice.

    In a shorter span, the phase would identify the date.
    """
    known, hour = stamps[~np.isnat(stamps)], np.timedelta64(1, "h")
    span = (known.max() - known.min()) / hour if len(known) else 0.0
    return tuple(period for period in (DAY, WEEK) if 2 * (step / hour) <= period <= span / 2)


def _column(table: Table, name: str, decimal: str, categorical: bool, wanted: bool, rows: int) -> Column | str:
    """The column, or why it cannot be used."""
    values, wrong = table.numbers(name, decimal)
    # Booleans are categories in every format, because in a CSV file they are text.
    if wrong is None and not categorical and not table.is_boolean(name):
        return _number_column(table, name, values, wanted, rows)
    if not (table.is_text(name) or wrong is None):
        return "has neither numbers nor text"
    # From the training rows alone: categories that appear later are new, as they would be in a live stream.
    fields = [category_name(field) for field in table.values(name)[:rows] if field is not None]
    categories = sorted(set(fields))
    if len(categories) > MAX_CATEGORIES:
        return _text_problem(table, name, decimal, fields[0], len(categories))
    if len(categories) < 2:
        where = " in every training row" if rows < len(table) else ""
        return f"is {categories[0]!r}{where or ' in every row'}" if categories else f"is empty{where}"
    return Column(name, tuple(categories), float(categories.index(max(categories, key=fields.count))))


def _number_column(table: Table, name: str, values: NDArray[np.float64], wanted: bool, rows: int) -> Column | str:
    if not name:
        return "has no name, and seems to number the rows"
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        return f"has {table.raw(name, row)!r} in {table.line(row)}, which is not finite"
    known = values[:rows][~np.isnan(values[:rows])]
    if not len(known):
        return "is empty" if np.isnan(values).all() else "is empty in every training row"
    if known.min() == known.max():
        return f"is {known[0]:g} in every {'training ' if rows < len(table) else ''}row"
    if not wanted and _counts_rows(known):
        return COUNTS
    return Column(name, usual=float(np.median(known)))


def _counts_rows(values: NDArray[np.float64]) -> bool:
    known = values[~np.isnan(values)]
    return len(known) > 2 and bool(known[1] != known[0]) and np.allclose(np.diff(known), known[1] - known[0])


def _footer(table: Table, name: str, decimal: str) -> str:
    """A hint if the fields of a column that are not numbers are those of the last lines."""
    values, wrong = table.numbers(name, decimal)
    return "" if wrong is None else table.footer(wrong, lambda row: bool(np.isnan(values[row])))


def _text_problem(table: Table, name: str, decimal: str, example: str, count: int) -> str:
    """Why a column of text with too many values cannot be used: a typing error, another decimal mark, units, …"""
    values, wrong = table.numbers(name, decimal)
    if wrong is not None:
        place = f"has {table.raw(name, wrong)!r} in {table.line(wrong)}"
        if np.isfinite(values).mean() >= MOSTLY_NUMBERS:
            return f"{place}, which is not a number{_footer(table, name, decimal)}"
        if table.numbers(name, "." if decimal[0] == "," else ",")[1] is None:
            return f"{place}, which is not a number with the decimal mark {decimal[0]!r}"
    unit = re.fullmatch(r"[$€£¥] ?[-+]?\d[\d.,]*|[-+]?\d[\d.,]* ?[^\d\s]{1,4}", example.strip())
    advice = "remove the units next to the numbers" if unit else f"at most {MAX_CATEGORIES} can be categories"
    return f"is text with {count} different values, such as {example!r}; {advice}"
