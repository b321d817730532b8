"""What a model must beat: the last total, that of a day or a week ago, and ridge regression.

Every score is on test targets, in the units of `nystream.train.Forecasting`: by the mean and deviation of the training
targets, so that their mean has an `mse` of about 1. A test stream begins where validation ends, and what was
measured before is known; a model that starts afresh there has a window to fill, and `skip` leaves the same rows out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.layers.scaler import Scaler
from nystream.tasks.electricity.features import DAY, WEEK, Forecast
from nystream.train import Forecasting

ALPHAS = tuple(10.0**power for power in range(-2, 6))
PIECE = 4096  # rows of the regression that are in memory at once


@dataclass(frozen=True)
class Baseline:
    """The test scores of one baseline, and what was chosen on validation data."""

    name: str
    scores: Mapping[str, float]
    chosen: Mapping[str, float] = field(default_factory=dict)


def persistence(problem: Forecast, skip: int = 0) -> Baseline:
    """The last known total stays as it is."""
    return Baseline("persistence", _scores(problem, _earlier(problem, problem.ahead), _test(problem, skip)))


def seasonal(problem: Forecast, period: float = DAY, skip: int = 0) -> Baseline:
    """The total is what it was `period` hours before the hour that is forecast."""
    lag = problem.series.rows(period, "period")
    if lag < problem.ahead:
        raise ValueError(f"period={period!r} hours ago is not yet known when the forecast is made")
    name = {DAY: "a day ago", WEEK: "a week ago"}.get(period, f"{period:g} hours ago")
    return Baseline(name, _scores(problem, _earlier(problem, lag), _test(problem, skip)))


def ridge(problem: Forecast, lags: int = 24, alphas: Sequence[float] = ALPHAS, skip: int = 0) -> Baseline:
    """Ridge regression on all values of the last `lags` rows and the time features of the newest.

    Columns are normalised as a model's input scaler does it, from the training part. Every alpha is fitted to it; the
    one with the least validation error is scored. The products of the columns are summed over pieces of the series in
    float64, so memory is that of a square matrix of names · lags columns, not of all rows.
    """
    if isinstance(lags, bool) or not isinstance(lags, int) or not 1 <= lags < problem.edges[0]:
        raise ValueError(f"lags={lags!r} must be an integer from 1 to {problem.edges[0] - 1}, within the training rows")
    if not alphas or not all(0 < alpha < float("inf") for alpha in alphas):
        raise ValueError(f"alphas={alphas!r} must be numbers greater than 0, at least one")
    design = _Design(problem, lags)
    coefficients = design.fit((lags - 1, problem.edges[0]), alphas)  # [columns, alphas]
    valid, test = _valid(problem, skip), _test(problem, skip)
    outputs = design.predict(valid, coefficients)  # [rows, alphas]
    errors = [_score(problem, outputs[:, k], valid)["mse"] for k in range(len(alphas))]
    best = int(np.argmin(errors))
    output = design.predict(test, coefficients[:, best])
    chosen = {"alpha": float(alphas[best]), "lags": lags, "valid_mse": errors[best]}
    return Baseline("ridge", _score(problem, output, test), chosen)


def baselines(problem: Forecast, skip: int = 0, lags: int = 24) -> list[Baseline]:
    """All of them, for one table."""
    seasons = [seasonal(problem, period, skip) for period in (DAY, WEEK)]
    return [persistence(problem, skip), *seasons, ridge(problem, lags, skip=skip)]


def _earlier(problem: Forecast, lag: int) -> Tensor:
    """[N, 1]: for every target the total `lag` rows before it; NaN where the series had not begun."""
    total = problem.series.total()
    targets = np.arange(len(problem.y)) + problem.ahead
    found = np.where(targets >= lag, total[np.maximum(targets - lag, 0)], np.nan)
    return torch.from_numpy(found[:, None].astype(np.float32))


class _Design:
    """The columns of the regression: a row's values, those of the rows before it, its time, and a constant."""

    def __init__(self, problem: Forecast, lags: int) -> None:
        self.x = _scaler(problem, problem.x)(problem.x).numpy()
        self.y = _scaler(problem, problem.y)(problem.y).numpy()
        self.names, self.lags = len(problem.series.names), lags
        self.times = self.x.shape[1] - self.names

    def fit(self, rows: tuple[int, int], alphas: Sequence[float]) -> NDArray[np.float64]:
        """[columns, alphas]: least squares plus alpha times the squared coefficients, that of the constant left out."""
        columns = self.names * self.lags + self.times + 1
        gram, moment = np.zeros((columns, columns)), np.zeros(columns)
        for start, held in self._pieces(*rows):
            gram += held.T @ held
            moment += held.T @ self.y[start : start + len(held), 0].astype(np.float64)
        penalised = np.eye(columns)
        penalised[-1, -1] = 0.0
        return np.column_stack([np.linalg.solve(gram + alpha * penalised, moment) for alpha in alphas])

    def predict(self, rows: tuple[int, int], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """[rows] or [rows, alphas]."""
        return np.concatenate([held @ coefficients for _, held in self._pieces(*rows)])

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        for at in range(start, stop, PIECE):
            end = min(at + PIECE, stop)
            held = np.ones((end - at, self.names * self.lags + self.times + 1))
            for lag in range(self.lags):
                held[:, lag * self.names : (lag + 1) * self.names] = self.x[at - lag : end - lag, : self.names]
            held[:, -1 - self.times : -1] = self.x[at:end, self.names :]
            yield at, held


def _scaler(problem: Forecast, held: Tensor) -> Scaler:
    """The scaler of x or y of the problem, fitted to the training part as a model's is."""
    scaler = Scaler(held.shape[1])
    scaler.fit(held[: problem.edges[0]])
    return scaler


def _valid(problem: Forecast, skip: int) -> tuple[int, int]:
    return _skipped("validation", problem.edges[0], problem.edges[1], skip)


def _test(problem: Forecast, skip: int) -> tuple[int, int]:
    return _skipped("test", problem.edges[1], len(problem.x), skip)


def _skipped(part: str, start: int, stop: int, skip: int) -> tuple[int, int]:
    if isinstance(skip, bool) or not isinstance(skip, int) or not 0 <= skip < stop - start:
        raise ValueError(f"skip={skip!r} must be an integer from 0 to {stop - start - 1}, to leave some {part} rows")
    return start + skip, stop


def _scores(problem: Forecast, output: Tensor, rows: tuple[int, int]) -> dict[str, float]:
    """Of outputs [N, 1] in the user's units."""
    part = output[slice(*rows)]
    if not bool(part.isfinite().all()):
        raise ValueError("the series begins too late: some rows to be scored have nothing so long ago")
    return _score(problem, _scaler(problem, problem.y)(part), rows)


def _score(problem: Forecast, output: Any, rows: tuple[int, int]) -> dict[str, float]:
    """Of normalised outputs of these rows."""
    y = _scaler(problem, problem.y)(problem.y[slice(*rows)])
    return Forecasting().scores(torch.as_tensor(output).reshape(-1, 1), y)
