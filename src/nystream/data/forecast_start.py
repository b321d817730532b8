"""What the model of a table starts from: ridge regression, or a simpler forecast."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from nystream.data.forecast_problem import CYCLES, Forecast
from nystream.data.linear_start import MIN_VALID, RIDGE, LinearStart, better, fit_start, with_quantiles
from nystream.data.problem import HELD_OUT
from nystream.data.row_splits import per_table
from nystream.data.table import counted, listed
from nystream.train.ridge import LAGS


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
        first, stop = problem.edges("train")
        first += min(problem.reader.history, (stop - first) // 4)  # rows before it lack some of their lags
        rows = slice(first, stop), slice(*problem.edges("valid"))
        fitted = with_quantiles(fitted, problem.ahead, *rows, problem.info.quantiles)
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
    known = int((~np.isnan(problem.ahead[slice(*problem.edges("valid"))])).sum(0).min())
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
    train, valid = problem.edges("train")[1], problem.edges("valid")
    simple = {}
    for cycle, seconds in CYCLES.items():
        lags = [problem.rows_in(seconds) - ahead for ahead in problem.horizons]
        if any(lags) and all(lag in (0, *reader.lags) for lag in lags):
            simple[f"the value of {cycle}"] = [
                reader.names.index(f"{target}, {lag} row{'s' * (lag > 1)} ago") if lag else None
                for target in reader.targets
                for lag in lags
            ]
    x, y, first = problem.rows.x, problem.ahead, problem.split.origin(valid[0])
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
    info = dataclasses.replace(problem.info, inputs=narrow.names, reader=narrow.to_dict())
    return dataclasses.replace(problem, reader=narrow, rows=rows, info=info)
