"""Forecasts of columns of a table: their change after some rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import ModelInfo
from nystream.config.checks import positive_int
from nystream.data.linear_start import MIN_VALID, RIDGE, LinearStart, beside, better, fit_start
from nystream.data.ordered_rows import read_other, rows_in_order
from nystream.data.problem import HELD_OUT, HeldOut, PartName, Problem, Scores
from nystream.data.reader import Policy
from nystream.data.row_splits import (
    DATA,
    RowSplit,
    Times,
    by_shares,
    by_times,
    given_shares,
    given_times,
    per_table,
    with_tables,
)
from nystream.data.table import Table, counted, listed
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import TableRows
from nystream.data.table_schema import find_reader
from nystream.data.trees import Trees, fit_trees
from nystream.train import Forecasting, StreamData
from nystream.train.ridge import LAGS

DROPOUT = 0.1  # of a Transformer beside a linear path
CYCLES = {"a day ago": 86400.0, "a week ago": 7 * 86400.0}  # seconds
ERRORS = ("mean absolute error", "root mean squared error")
RELATIVE = " relative to persistence, mean over targets"  # of an error


@dataclass(frozen=True, eq=False)
class Forecast(Problem):
    """TableRows in order of time, and their split."""

    reader: TableReader
    rows: TableRows
    horizon: int
    info: ModelInfo
    notes: tuple[str, ...]
    split: RowSplit
    start: LinearStart | None = None  # what the model starts from

    task = Forecasting()
    short = 0.0

    @property
    def dropout(self) -> float:  # type: ignore[override]
        return 0.0 if self.start is None else DROPOUT

    @cached_property
    def y(self) -> NDArray[np.float32]:
        """[N, targets]: the change after `horizon` rows; NaN if the target is unknown then."""
        base, ahead = self.rows.base, self.horizon
        change = np.where(self.rows.known[ahead:], base[ahead:] - base[:-ahead], np.nan)
        for first in self.split.tables[1:]:  # nothing is known after the end of a table
            change[first - ahead : first] = np.nan
        return change.astype(np.float32)

    @property
    def longest(self) -> int:
        return self.edges("train")[1]

    def edges(self, name: PartName) -> tuple[int, int]:
        """Return the first row of a part, and the one after its last."""
        return (0, len(self.y)) if name == "all" else self.split.parts[name]

    def part(self, name: PartName, warm: int) -> StreamData:
        if name == "all":
            tables = [slice(first, first + len(x) - self.horizon) for first, x in self._tables(self.rows.x)]
            return StreamData([self.rows.x[rows] for rows in tables], [self.y[rows] for rows in tables])
        rows = self.read_rows(name, warm)
        return StreamData([self.rows.x[rows]], [self.y[rows]])

    def _tables(self, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The first row of each table, and its rows."""
        return zip(self.split.tables, per_table(self.split, values), strict=True)

    def read_rows(self, name: PartName, warm: int) -> slice:
        """The rows of a part, and those of the same table before it that fill its window.

        So all of its rows are scored, unless it is a table of its own.
        """
        start, stop = self.edges(name)
        origin = self.split.origin(start)
        if not self.fills(name, warm):
            raise ValueError(
                f"{name} has {counted(stop - origin, 'row')} to forecast from, the {self.split.names[name]}, but the "
                f"first {warm} only fill the window: give a longer table, or a shorter window"
            )
        return slice(max(origin, start - warm), stop)

    def fills(self, name: PartName, warm: int) -> bool:
        start, stop = self.edges(name)
        origin = self.split.origin(start)
        return not origin or stop - origin > warm  # the source is checked with the window

    def missed(self, data: StreamData, name: PartName, warm: int) -> StreamData:
        """The data of a part as returned by `part`, or with a teacher's outputs, for what the linear path misses."""
        assert self.start is not None
        return beside(self.start, data, self.read_rows(name, warm))

    def scored(self, name: PartName, warm: int) -> tuple[int, int]:
        """Return the first scored row of a part, and the one after the last."""
        start, stop = self.edges(name)
        return max(start, self.split.origin(start) + warm), stop

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        return _errors(output.double().numpy(), y.double().numpy(), self.info.labels)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        start, stop = self.scored(name, warm)
        y = self.y[start:stop].astype(np.float64)
        baselines = {"persistence": _errors(np.zeros_like(y), y, self.info.labels)}
        for cycle, seconds in CYCLES.items():
            lag = self.rows_in(seconds)
            # The value of a cycle ago must be known at every scored row.
            if self.horizon < lag <= start - self.split.origin(start) + self.horizon:
                earlier = np.arange(start, stop) + self.horizon - lag
                change = self.rows.base[earlier] - self.rows.base[start:stop]
                baselines[cycle] = _errors(change, y, self.info.labels)
        # Trees are fitted to the training rows, so they are no baseline for all rows.
        if self.start is not None and name in ("valid", "test") and (trees := self.trees[0]) is not None:
            change = trees.predict(self.rows.x[start:stop])
            baselines = {"boosted trees": _errors(change, y, self.info.labels), **baselines}
        return baselines

    @cached_property
    def trees(self) -> tuple[Trees | None, str]:
        """Boosted trees on the same tokens, or None, and a note on them."""
        train, valid = (slice(*self.edges(name)) for name in ("train", "valid"))
        return fit_trees(self.rows.x[train], self.y[train], self.rows.x[valid], self.y[valid])

    def rows_in(self, seconds: float) -> int:
        """The number of rows in a period; 0 if it is not a whole number, or not the same everywhere."""
        if self.rows.time is None or self.reader.step is None:
            return 0
        lag = round(seconds / self.reader.step)
        source, *others = per_table(self.split, self.rows.time)
        if lag != seconds / self.reader.step or len(source) <= lag:
            return 0
        apart = np.concatenate([(time[lag:] - time[:-lag]) / np.timedelta64(1, "s") for time in (source, *others)])
        return lag if (np.abs(apart - seconds) < self.reader.step / 2).all() else 0


def forecast(
    table: Table,
    targets: Sequence[str] = (),
    horizon: int = 1,
    *,
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
    held_out: Mapping[HeldOut, Table] | None = None,
    reader: TableReader | None = None,
) -> Forecast:
    """Set up a forecast of the targets `horizon` rows ahead.

    The `notes` of the result say what was found in the table, and what was dropped or filled.

    Args:
        table: Rows in order of time, oldest or newest first, as returned by `read_table`.
        targets: Columns to forecast.
        horizon: Number of rows ahead.
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
    positive_int("horizon", horizon)
    notes: tuple[str, ...] = ()
    parts: Iterable[PartName] = ("all",)
    how = given_shares(split, held_out or {}) or given_times(split, table, time, time_format, timezone)
    if reader is None:
        train = how.before if isinstance(how, Times) else how[0]
        reader, notes = find_reader(
            table,
            targets,
            time,
            columns,
            categorical,
            train,
            time_format,
            decimal,
            horizon if linear else None,
            timezone,
            _known_rows(known, horizon),
        )
        reader = dataclasses.replace(reader, missing=missing or reader.missing, gaps=gaps or reader.gaps)
        parts = DATA
    rows, turned = rows_in_order(reader, table, missing, gaps)
    notes = (*notes, *turned)
    if len(rows.x) <= horizon:
        raise ValueError(f"{table.name} has {len(rows.x)} rows, too few for targets {horizon} rows ahead")
    if isinstance(how, Times):
        where = by_times(rows, horizon, how, table.name)
    else:
        where = by_shares(rows, horizon, how)
    if held_out:
        others = {part: (other.name, read_other(reader, part, other)) for part, other in held_out.items()}
        where, rows = with_tables(where, rows, horizon, others)
    notes = (*notes, *rows.notes, *([where.note] if parts is DATA else []))
    problem = Forecast(reader, rows, horizon, _info(reader, units, horizon), notes, where)
    _check_targets(problem, table.name, parts)
    return _with_start(problem, narrow=not columns) if linear else problem


def _known_rows(known: Sequence[str], horizon: int) -> dict[str, int]:
    """The columns that are known in advance, with the number of rows."""
    for name in known:
        if list(known).count(name) > 1:
            raise ValueError(f"known column {name!r} is named more than once")
    return dict.fromkeys(known, horizon)


def _info(reader: TableReader, units: Sequence[str], horizon: int) -> ModelInfo:
    return ModelInfo(
        task="forecasting",
        inputs=reader.names,
        labels=reader.targets,
        units=tuple(units),
        horizon=horizon,
        seconds=reader.step,
        reader=reader.to_dict(),
    )


def _with_start(problem: Forecast, narrow: bool) -> Forecast:
    """The problem with its linear path; with `narrow`, without columns that do not make it clearly better."""
    fitted = _fit_start(problem)
    others = [name for name in problem.reader.column_names if name not in problem.reader.targets]
    note = ""
    if narrow and others:
        narrowed = _of_targets(problem)
        start = _fit_start(narrowed)
        if not better(fitted.ridge, start.ridge):
            problem, fitted = narrowed, start
            them = "it" if len(others) == 1 else "them"
            note = f"{listed(others)} dropped: ridge regression is no better with {them}; --columns keeps {them}"
    read = fitted.config.tokens
    short = [
        f"the {problem.split.names[part]}, are fewer than the {read} that the model reads, so it lacks some lags there"
        for part in HELD_OUT
        if not problem.fills(part, read - 1)
    ]
    notes = (*problem.notes, *([note] if note else []), _start_note(problem, fitted), *short)
    return dataclasses.replace(problem, start=fitted, notes=notes)


def _start_note(problem: Forecast, start: LinearStart) -> str:
    """What the model starts from, and why if that is not ridge regression."""
    known = int((~np.isnan(problem.y[slice(*problem.edges("valid"))])).sum(0).min())
    if known < MIN_VALID:
        return f"forecasting the last value: {counted(known, 'row')} of validation data are too few to choose a model"
    if start.name != RIDGE:
        return f"starting from {start.name}, which is better than ridge regression on validation data"
    last = "the last row" if start.ridge.lags == 1 else f"the last {start.ridge.lags} rows"
    return f"starting from ridge regression on {last} and lags" + (
        ", and the calendar" if problem.reader.periods else ""
    )


def _fit_start(problem: Forecast) -> LinearStart:
    reader = problem.reader
    numbers = sum(not column.categories for column in reader.columns)
    train, valid = problem.edges("train")[1], problem.edges("valid")
    simple = {}
    for cycle, seconds in CYCLES.items():
        lag = problem.rows_in(seconds) - problem.horizon
        if lag in reader.lags:
            names = [f"{target}, {lag} row{'s' * (lag > 1)} ago" for target in reader.targets]
            simple[f"the value of {cycle}"] = [reader.names.index(name) for name in names]
    x, y, first = problem.rows.x, problem.y, problem.split.origin(valid[0])
    if first:  # before the first row of another table there is nothing, which is a token of zeros once it is scaled
        nothing = np.repeat(x[:train].astype(np.float64).mean(0, keepdims=True), max(LAGS), 0).astype(np.float32)
        unknown = np.full((len(nothing), y.shape[1]), np.nan, np.float32)
        x, y = (
            np.concatenate([x[:train], nothing, x[slice(*valid)]]),
            np.concatenate([y[:train], unknown, y[slice(*valid)]]),
        )
        rows = valid[1] - valid[0]
        valid = (len(x) - rows + min(reader.history, rows // 4), len(x))
    start = fit_start(x, y, train, valid, len(reader.targets), numbers, reader.history, simple)
    if len(problem.split.tables) == 1:
        return start
    scaled = [start.scaler(torch.from_numpy(x).double()) for x in per_table(problem.split, problem.rows.x)]
    output, ridge = (np.concatenate([each.predict(x).numpy() for x in scaled]) for each in (start.path, start.ridge))
    return start._replace(output=output, ridge_output=ridge)


def _of_targets(problem: Forecast) -> Forecast:
    """The problem without columns other than the targets."""
    reader = problem.reader
    columns = tuple(column for column in reader.columns if column.name in reader.targets)
    narrow = dataclasses.replace(reader, columns=columns, known=())
    dropped = len(reader.names) - len(narrow.names)
    kept = np.r_[: len(columns), len(columns) + dropped : len(reader.names)]  # the targets come first
    rows = problem.rows._replace(x=np.ascontiguousarray(problem.rows.x[:, kept]))
    info = _info(narrow, problem.info.units, problem.horizon)
    return dataclasses.replace(problem, reader=narrow, rows=rows, info=info)


def _check_targets(problem: Forecast, name: str, parts: Iterable[PartName]) -> None:
    """Raise if a target is empty in a whole part: there would be nothing to learn or to score."""
    for part in parts:
        start, stop = problem.edges(part)
        if start == stop:
            raise ValueError(
                f"{name} has {counted(len(problem.rows.x), 'row')}, too few to train, validate and test a forecast "
                f"{counted(problem.horizon, 'row')} ahead"
            )
        unknown = np.isnan(problem.y[start:stop]).all(0)
        if stop > start and unknown.any():
            target = problem.reader.targets[int(unknown.argmax())]
            raise ValueError(
                f"{name}: the target {target!r} is empty in all of the {problem.split.names.get(part, 'rows')}; "
                f"--missing skip drops rows without it"
            )


def _errors(output: NDArray[np.float64], y: NDArray[np.float64], targets: Sequence[str]) -> Scores:
    """Mean absolute and root mean squared error of every target, in the user's units.

    For several targets, also the means of their ratios to the errors of persistence, which have no units; NaN if
    persistence is exact for one of them.
    """
    ours, naive = _two_errors(output, y), _two_errors(np.zeros_like(y), y)
    scores: Scores = {}
    for place, name in enumerate(targets):
        of = f" of {name}" if len(targets) > 1 else ""
        scores |= {f"{kind}{of}": float(values[place]) for kind, values in zip(ERRORS, ours, strict=True)}
    if len(targets) > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(naive > 0, ours / naive, np.nan).mean(1)
        scores |= {f"{kind}{RELATIVE}": float(ratio) for kind, ratio in zip(ERRORS, ratios, strict=True)}
    return scores


def _two_errors(output: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute and root mean squared errors [2, targets]; NaN for a target that is never known."""
    known = ~np.isnan(y)
    error = np.where(known, output - y, 0.0)
    with np.errstate(invalid="ignore"):
        return np.stack([np.abs(error).sum(0) / known.sum(0), np.sqrt(np.square(error).sum(0) / known.sum(0))])


def levels(problem: Forecast, name: PartName, warm: int, output: Tensor) -> tuple[NDArray[np.float64], ...]:
    """Return forecasts, truth (NaN if unknown) and last known values of the scored rows, [N, targets] each."""
    start, stop = problem.scored(name, warm)
    base, known = problem.rows.base[start:stop], np.isfinite(problem.y[start:stop])
    truth = problem.rows.base[start + problem.horizon : stop + problem.horizon]  # y is rounded to float32
    return base + output.double().numpy(), np.where(known, truth, np.nan), base
