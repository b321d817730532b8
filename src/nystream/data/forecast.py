"""Setting up forecasts of columns of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nystream.data.forecast_options import Horizon, horizons_in, quantiles_in
from nystream.data.forecast_problem import Forecast, forecast_info
from nystream.data.forecast_start import with_start
from nystream.data.ordered_rows import rows_in_order, series_in_order
from nystream.data.problem import HeldOut, PartName
from nystream.data.reader import Policy
from nystream.data.row_splits import (
    DATA,
    Other,
    Shares,
    Times,
    by_shares,
    by_times,
    given_shares,
    given_times,
    with_tables,
)
from nystream.data.series import SeriesTables
from nystream.data.table import Table, counted
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import TableRows
from nystream.data.table_schema import find_reader


def forecast(
    table: Table | SeriesTables,
    targets: Sequence[str] = (),
    horizon: Horizon = 1,
    *,
    quantiles: Sequence[float] | str = (),
    minimum: float | None = None,
    time: str | Sequence[str] | None = None,
    time_format: str = "",
    timezone: str = "",
    decimal: str = "",
    columns: Sequence[str] = (),
    categorical: Sequence[str] = (),
    known: Sequence[str] = (),
    units: Sequence[str] = (),
    missing: Policy | None = None,
    gaps: Policy | None = None,
    linear: bool = False,
    split: Sequence[str] = (),
    held_out: Mapping[HeldOut, Table | SeriesTables] | None = None,
    reader: TableReader | None = None,
) -> Forecast:
    """Set up a forecast of the targets `horizon` rows ahead, or several numbers of rows ahead at once.

    The `notes` of the result say what was found in the table, and what was dropped or filled.

    Args:
        table: Rows in order of time, oldest or newest first, as returned by `read_table`; or several series, as
            returned by `series_in` and `read_files`, which one model then forecasts.
        targets: Columns to forecast.
        horizon: Number of rows ahead; or several, as a `range`, a tuple, or text such as "1..48" or "1,24,48".
        quantiles: Levels of the quantiles to forecast, between 0 and 1; by default none, but one number.
        minimum: The least value that the targets can have, to which forecasts are raised; None if there is none.
        time: The time column, or the columns of the date and of the time of day; auto-detected by default, "none" if
            there is none.
        time_format: The format of times, as for `datetime.strptime`, with a space between the date and a time of day
            from another column; auto-detected by default.
        timezone: The time zone of the times, such as Europe/Berlin: those without one are local times, with daylight
            saving time, and the time of day and of the week are those of this zone; none by default.
        decimal: The decimal mark of numbers given as text, "." or ","; auto-detected by default.
        columns: Columns to use; by default all that can be used.
        categorical: Columns of numbers that are categories.
        known: Columns whose value at the time of the forecast is known in advance, such as a holiday or a weather
            forecast. A table has the value of each row's own time; a live record has that of the time that is forecast,
            in the field "NAME ahead". A table with columns of such names is read as live records are.
        units: Units of the targets, one for each, or one for all.
        missing: For an empty field: raise an error, repeat the column's last value, or skip the row; by default as the
            given reader was trained, otherwise an error.
        gaps: For rows missing in time: raise an error, repeat the last values, or ignore the gap; the default is as for
            `missing`.
        linear: Whether to start from ridge regression: tokens have the lags and harmonics that it needs
            (`nystream.data.lags`), and columns that do not help it are dropped, unless `columns` names them.
        split: The times at which validation and test data begin, or the shares of the three parts; by default 80, 10
            and 10 % of the rows.
        held_out: Other tables, read likewise, that are the validation data ("valid") or the test data ("test").
        reader: The reader of a trained model; by default one is determined from the table.
    """
    horizons = horizons_in(horizon)
    horizon, several = horizons[-1], len(horizons) > 1
    notes: tuple[str, ...] = ()
    parts: Iterable[PartName] = ("all",)
    series = table if isinstance(table, SeriesTables) else None
    whole = table.whole if isinstance(table, SeriesTables) else table
    timed = whole if series is None else series.longest
    how = given_shares(split, held_out or {}) or given_times(split, timed, time, time_format, timezone)
    if reader is None:
        counts = [] if series is None else [_train_rows(how, each) for each in series.tables]
        reader, notes = find_reader(
            whole,
            targets,
            time,
            columns,
            categorical,
            how.before if isinstance(how, Times) else how[0],
            time_format,
            decimal,
            horizons if linear else (),
            timezone,
            _known_rows(known, horizons),
            series,
            counts,
        )
        reader = dataclasses.replace(reader, missing=missing or reader.missing, gaps=gaps or reader.gaps)
        parts = DATA
    starts: tuple[int, ...] = (0,)
    names: tuple[str, ...] = ()
    if series is None:
        rows, turned = rows_in_order(reader, whole, missing, gaps)
    else:
        rows, starts, names, turned = _series_rows(reader, series, horizon, missing, gaps)
        notes = (series.note, *notes)
    notes = (*notes, *turned)
    if len(rows.x) <= horizon:
        raise ValueError(f"{whole.name} has {len(rows.x)} rows, too few for targets {horizon} rows ahead")
    if isinstance(how, Times):
        where = by_times(rows, horizon, how, whole.name, starts, names)
    else:
        where = by_shares(rows, horizon, how, starts, names)
    if held_out:
        others = {part: _other(reader, part, other, horizon) for part, other in held_out.items()}
        where, rows = with_tables(where, rows, horizon, others)
    notes = (*notes, *rows.notes, *([where.note] if parts is DATA else []))
    info = forecast_info(reader, units, horizon)
    info = dataclasses.replace(
        info, horizons=horizons if several else (), quantiles=quantiles_in(quantiles), minimum=minimum
    )
    problem = Forecast(reader, rows, horizon, info, notes, where)
    _check_targets(problem, whole.name, parts)
    if found := _check_minimum(problem, whole.name):
        problem = dataclasses.replace(problem, notes=(*problem.notes, *found))
    return with_start(problem, narrow=not columns) if linear else problem


def _train_rows(how: Shares | Times, table: Table) -> int:
    """The number of rows of a series that are training data."""
    return how.rows_before(table) if isinstance(how, Times) else max(1, int(how[0] * len(table)))


def _series_rows(
    reader: TableReader, series: SeriesTables, horizon: int, missing: Policy | None = None, gaps: Policy | None = None
) -> tuple[TableRows, tuple[int, ...], tuple[str, ...], tuple[str, ...]]:
    """The rows of several series, the first one of each, their names, and notes; some are too short to be used."""
    long = [place for place, table in enumerate(series.tables) if len(table) > horizon]
    if not long:
        raise ValueError(f"{series.name}: no series has more than {counted(horizon, 'row')}, the horizon")
    dropped = len(series.tables) - len(long)
    series = series.chosen(long) if dropped else series
    rows, starts, turned = series_in_order(reader, series, missing, gaps)
    notes = [f"{dropped:,} series dropped: no more than {counted(horizon, 'row')}"] if dropped else []
    notes += [f"{sum(turned):,} series newest first: sorted by time"] if any(turned) else []
    return rows, starts, series.series, tuple(notes)


def _other(reader: TableReader, part: HeldOut, table: Table | SeriesTables, horizon: int) -> Other:
    """The rows of validation or test data, which must have the columns of the source."""
    try:
        if isinstance(table, SeriesTables):
            rows, starts, names, _ = _series_rows(reader, table, horizon)
            return Other(table.name, rows, starts, names)
        return Other(table.name, rows_in_order(reader, table)[0])
    except ValueError as error:
        raise ValueError(f"{part}={table.name} cannot be used: {error}") from error


def _known_rows(known: Sequence[str], horizons: Sequence[int]) -> dict[str, int]:
    """The columns that are known in advance, with the number of rows."""
    if known and len(horizons) > 1:
        raise ValueError(
            f"known={','.join(known)} has the values of one time that is forecast, but there are {len(horizons)} "
            f"horizons: give one, such as `horizon={horizons[-1]}`, or leave out `known`"
        )
    for name in known:
        if list(known).count(name) > 1:
            raise ValueError(f"known column {name!r} is named more than once")
    return dict.fromkeys(known, horizons[-1])


def _check_targets(problem: Forecast, name: str, parts: Iterable[PartName]) -> None:
    """Raise if a target is empty in a whole part: there would be nothing to learn or to score."""
    for part in parts:
        rows = problem.row_numbers(part)
        if not len(rows):
            raise ValueError(
                f"{name} has {counted(len(problem.rows.x), 'row')}, too few to train, validate and test a forecast "
                f"{counted(problem.horizon, 'row')} ahead"
            )
        known, where = problem.known(part), problem.split.names.get(part, "rows")
        if not known.all():
            target = problem.reader.targets[int(known.argmin())]
            raise ValueError(
                f"{name}: the target {target!r} is empty in all of the {where}; `missing='skip'` drops rows without it"
            )
        if part == "train" and np.isnan(problem.y[rows]).all(0).any():
            raise ValueError(f"{name}: a target never changes in the {where}, so there is nothing to learn")


def _check_minimum(problem: Forecast, name: str) -> list[str]:
    """Raise if all that is learned from is below the minimum, which must be in the units of the targets; else notes."""
    least, train = problem.info.minimum, problem.row_numbers("train" if "train" in problem.split.parts else "all")
    notes = list[str]()
    for target, values in zip(problem.reader.targets, problem.rows.base[train].T, strict=True):
        if least is None:
            break
        if (below := float((values < least).mean())) > 0:
            notes.append(f"{below:.1%} of the values of {target!r} are below minimum={least:g}; forecasts never are")
        if values.max() < least:
            raise ValueError(
                f"minimum={least:g} is above all values of {target!r} in the {DATA['train']} of {name}, which are from "
                f"{values.min():g} to {values.max():g}: give it in the same units"
            )
    return notes
