"""What the model of a table starts from: ridge regression, or a simpler forecast."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.data.forecast_problem import CYCLES, Forecast
from nystream.data.linear_start import MIN_VALID, RIDGE, LinearStart, better, fit_start, with_quantiles
from nystream.data.problem import HELD_OUT, PartName
from nystream.data.row_splits import numbers_in, per_table
from nystream.data.series_scores import learnable
from nystream.data.table import counted, listed

PARTS: tuple[PartName, PartName] = ("train", "valid")
MAX_ROWS = 200_000  # of series, that ridge regression is fitted to


def with_start(problem: Forecast, narrow: bool) -> Forecast:
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
            note = f"{listed(others)} dropped: ridge regression is no better with {them}; `columns` keeps {them}"
    if problem.info.quantiles:
        fitted = with_quantiles(fitted, *_residual_rows(problem), problem.info.quantiles)
    read = fitted.config.tokens
    short = [
        f"the {problem.split.names[part]}, are fewer than the {read} that the model reads, so it lacks some lags there"
        for part in HELD_OUT
        if not problem.fills(part, read - 1)
    ]
    notes = (*problem.notes, *([note] if note else []), _start_note(problem, fitted), *short)
    return dataclasses.replace(problem, start=fitted, notes=notes)


def _residual_rows(problem: Forecast) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Changes, and the rows of training and validation data whose residuals count; of many series, a part of them."""
    history = problem.reader.history  # the first rows lack some of their lags
    train = numbers_in([(start + min(history, (stop - start) // 4), stop) for start, stop in problem.ranges("train")])
    rows = [each[:: -(-len(each) // MAX_ROWS) or 1] for each in (train, problem.row_numbers("valid"))]
    y = problem.ahead if problem.rows.scale is None else learnable(problem.ahead)
    return y, rows[0], rows[1]


def _start_note(problem: Forecast, start: LinearStart) -> str:
    """What the model starts from, and why if that is not ridge regression."""
    known = int((~np.isnan(problem.ahead[problem.row_numbers("valid")])).sum(0).min())
    if known < MIN_VALID:
        return f"forecasting the last value: {counted(known, 'row')} of validation data are too few to choose a model"
    if start.name != RIDGE:
        return f"starting from {start.name}, which is better than ridge regression on validation data"
    last = "the last row" if start.ridge.lags == 1 else f"the last {start.ridge.lags} rows"
    calendar = ", and the calendar" if problem.reader.periods else ""
    residuals = ", with the quantiles of its residuals" if problem.info.quantiles else ""
    return f"starting from ridge regression on {last} and lags{calendar}{residuals}"


def _fit_start(problem: Forecast) -> LinearStart:
    reader = problem.reader
    numbers = sum(not column.categories for column in reader.columns)
    simple = {}
    for cycle, seconds in CYCLES.items():
        lags = [problem.rows_in(seconds) - ahead for ahead in problem.horizons]
        if any(lags) and all(lag in (0, *reader.lags) for lag in lags):
            simple[f"the value of {cycle}"] = [
                reader.names.index(f"{target}, {lag} row{'s' * (lag > 1)} ago") if lag else None
                for target in reader.targets
                for lag in lags
            ]
    x, y, train, valid = _streams(problem)
    start = fit_start(x, y, train, valid, len(reader.targets), numbers, reader.history, simple)
    if len(problem.split.tables) == 1:
        return start
    outputs: list[list[NDArray[np.float64]]] = [[], []]
    for tokens in per_table(problem.split, problem.rows.x):
        scaled = start.scaler(torch.from_numpy(tokens).double())
        for output, path in zip(outputs, (start.path, start.ridge), strict=True):
            output.append(path.predict(scaled).numpy())
    return start._replace(output=np.concatenate(outputs[0]), ridge_output=np.concatenate(outputs[1]))


def _streams(
    problem: Forecast,
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]], list[int], list[tuple[int, int]]]:
    """What is fitted: tokens, changes, and the rows of each stream to fit and to validate on.

    Of many series, some are chosen: the time grows with the number of rows, and the error hardly falls any more.
    """
    split, y = problem.split, problem.ahead
    ends = [*split.tables[1:], len(problem.rows.x)]
    train, valid = ({split.origin(start): (start, stop) for start, stop in problem.ranges(part)} for part in PARTS)
    tables = [(first, end) for first, end in zip(split.tables, ends, strict=True) if first in train or first in valid]
    x: list[NDArray[np.float32]] = []
    changes, fitted, checked = list[NDArray[np.float32]](), list[int](), list[tuple[int, int]]()
    if split.series:
        groups = ((True, True), (True, False), (False, True))
        tables = [
            table
            for group in groups
            for table in _sample([table for table in tables if (table[0] in train, table[0] in valid) == group])
        ]
    for first, end in tables:
        (start, stop) = valid.get(first, (first, first))
        if start == first and stop > first:  # a table of its own has no rows before that would fill the lags
            start = first + min(problem.reader.history, (stop - first) // 4)
        x.append(problem.rows.x[first:end])
        changes.append(y[first:end] if problem.rows.scale is None else learnable(y[first:end]))
        fitted.append(train.get(first, (first, first))[1] - first)
        checked.append((start - first, stop - first))
    return x, changes, fitted, checked


def _sample(tables: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Some of the tables, chosen at random, if they have too many rows."""
    lengths = np.array([end - first for first, end in tables])
    if lengths.sum() <= MAX_ROWS:
        return tables
    order = np.random.default_rng(0).permutation(len(tables))
    count = int(np.searchsorted(np.cumsum(lengths[order]), MAX_ROWS)) + 1
    return [tables[place] for place in sorted(order[:count].tolist())]


def _of_targets(problem: Forecast) -> Forecast:
    """The problem without columns other than the targets."""
    reader = problem.reader
    columns = tuple(column for column in reader.columns if column.name in reader.targets)
    narrow = dataclasses.replace(reader, columns=columns, known=())
    dropped = len(reader.names) - len(narrow.names)
    kept = np.r_[: len(columns), len(columns) + dropped : len(reader.names)]  # the targets come first
    rows = problem.rows._replace(x=np.ascontiguousarray(problem.rows.x[:, kept]))
    info = dataclasses.replace(problem.info, inputs=narrow.names, reader=narrow.to_dict())
    return dataclasses.replace(problem, reader=narrow, rows=rows, info=info)
