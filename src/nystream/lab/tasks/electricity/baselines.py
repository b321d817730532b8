"""Baselines: the last total, the total of a day or a week ago, and ridge regression.

Scores are those of totals on test rows, in units of the standard deviation of totals in training, so that their mean
would have an `mse` of about 1. This is what `nystream.train.evaluate` returns for a model of totals, and
`DemandForecast.in_totals` for a model of changes. A model that starts at the first test row must fill its window first;
`skip` drops the same rows here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.data.calendar import DAY, WEEK
from nystream.lab.tasks.electricity.features import DemandForecast
from nystream.layers.scaler import Scaler
from nystream.train import Forecasting

ALPHAS = tuple(10.0**power for power in range(-2, 6))
# Tokens. On EIA-930, half as many again reduce the validation error by a tenth, and twice as many with lags by a
# hundredth.
LAGS = {"paper": 24, "lags": 6}
CHUNK = 4096  # rows of the regression in memory at once


@dataclass(frozen=True)
class Baseline:
    """The test scores of a baseline, and the settings chosen on validation data."""

    name: str
    scores: Mapping[str, float]
    chosen: Mapping[str, float] = field(default_factory=dict)


def persistence(problem: DemandForecast, skip: int = 0) -> Baseline:
    """Forecast the last known total."""
    return Baseline("persistence", _totals(problem, _earlier(problem, problem.ahead), _rows(problem, "test", skip)))


def seasonal(problem: DemandForecast, period: float = DAY, skip: int = 0) -> Baseline:
    """Forecast the total of `period` hours before the hour that is forecast."""
    lag = problem.series.rows(period, "period")
    if lag < problem.ahead:
        raise ValueError(f"period={period!r} hours ago is not yet known when the forecast is made")
    name = {DAY: "a day ago", WEEK: "a week ago"}.get(period, f"{period:g} hours ago")
    return Baseline(name, _totals(problem, _earlier(problem, lag), _rows(problem, "test", skip)))


def ridge(
    problem: DemandForecast, lags: int | None = None, alphas: Sequence[float] = ALPHAS, skip: int = 0
) -> Baseline:
    """Ridge regression on the last `lags` tokens, with the time features of the newest only.

    By default, 24 tokens, or 6 if the tokens have lags. Columns are scaled as by a model's input scaler. The alpha with
    the smallest validation error is scored. The normal equations are summed over chunks of the series in float64, so
    that memory does not grow with the number of rows.
    """
    lags = LAGS[problem.tokens] if lags is None else lags
    if isinstance(lags, bool) or not isinstance(lags, int) or not 1 <= lags < problem.edges[0]:
        raise ValueError(f"lags={lags!r} must be an integer from 1 to {problem.edges[0] - 1}, within the training rows")
    if not alphas or not all(0 < alpha < float("inf") for alpha in alphas):
        raise ValueError(f"alphas={alphas!r} must be numbers greater than 0, at least one")
    design = _Design(problem, lags)
    coefficients = design.fit((lags - 1, problem.edges[0]), alphas)  # [columns, alphas]
    valid, test = (_rows(problem, part, skip) for part in ("validation", "test"))
    outputs = design.predict(valid, coefficients)  # [rows, alphas]
    errors = [design.scores(outputs[:, k], valid)["mse"] for k in range(len(alphas))]
    best = int(np.argmin(errors))
    output = design.predict(test, coefficients[:, best])
    chosen = {"alpha": float(alphas[best]), "lags": lags, "valid_mse": errors[best]}
    return Baseline("ridge", design.scores(output, test), chosen)


def baselines(problem: DemandForecast, skip: int = 0, lags: int | None = None) -> list[Baseline]:
    """All baselines; `lags` is that of `ridge`."""
    seasons = [seasonal(problem, period, skip) for period in (DAY, WEEK)]
    return [persistence(problem, skip), *seasons, ridge(problem, lags, skip=skip)]


def _earlier(problem: DemandForecast, lag: int) -> NDArray[np.float64]:
    """[N]: for every row, the total `lag` rows before the one that is forecast; NaN before the start of the series."""
    total = problem.series.total()
    targets = problem.first + np.arange(len(problem.y)) + problem.ahead
    return np.where(targets >= lag, total[np.maximum(targets - lag, 0)], np.nan)


class _Design:
    """The columns of the regression: the values of a row and of previous rows, its time features, and a constant."""

    def __init__(self, problem: DemandForecast, lags: int) -> None:
        self.problem, self.lags, self.times = problem, lags, problem.times
        self.x = _scaler(problem, problem.x)(problem.x).numpy()
        self.scaler = _scaler(problem, problem.y)
        self.y = self.scaler(problem.y).numpy()
        self.known = self.x.shape[1] - self.times

    def fit(self, rows: tuple[int, int], alphas: Sequence[float]) -> NDArray[np.float64]:
        """[columns, alphas]: least squares plus alpha times the squared coefficients, except that of the constant."""
        columns = self.known * self.lags + self.times + 1
        gram, moment = np.zeros((columns, columns)), np.zeros(columns)
        for start, piece in self._chunks(*rows):
            gram += piece.T @ piece
            moment += piece.T @ self.y[start : start + len(piece), 0].astype(np.float64)
        penalised = np.eye(columns)
        penalised[-1, -1] = 0.0
        return np.column_stack([np.linalg.solve(gram + alpha * penalised, moment) for alpha in alphas])

    def predict(self, rows: tuple[int, int], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """[rows] or [rows, alphas]."""
        return np.concatenate([piece @ coefficients for _, piece in self._chunks(*rows)])

    def scores(self, output: NDArray[np.float64], rows: tuple[int, int]) -> dict[str, float]:
        """The scores of normalised outputs of these rows."""
        restored = self.scaler.restore(torch.from_numpy(output)).numpy()
        return _scores(self.problem, restored, self.problem.y[slice(*rows), 0].double().numpy())

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        for at in range(start, stop, CHUNK):
            end = min(at + CHUNK, stop)
            piece = np.ones((end - at, self.known * self.lags + self.times + 1))
            for lag in range(self.lags):
                piece[:, lag * self.known : (lag + 1) * self.known] = self.x[at - lag : end - lag, : self.known]
            piece[:, -1 - self.times : -1] = self.x[at:end, self.known :]
            yield at, piece


def _scaler(problem: DemandForecast, rows: Tensor) -> Scaler:
    """The scaler of x or y, fitted to the training part like that of a model."""
    scaler = Scaler(rows.shape[1])
    scaler.fit(rows[: problem.edges[0]])
    return scaler


def _rows(problem: DemandForecast, part: str, skip: int) -> tuple[int, int]:
    """The first and last row of a part, without the first `skip`."""
    start, stop = problem.edges if part == "validation" else (problem.edges[1], len(problem.x))
    if isinstance(skip, bool) or not isinstance(skip, int) or not 0 <= skip < stop - start:
        raise ValueError(f"skip={skip!r} must be an integer from 0 to {stop - start - 1}, to leave some {part} rows")
    return start + skip, stop


def _totals(problem: DemandForecast, output: NDArray[np.float64], rows: tuple[int, int]) -> dict[str, float]:
    """The scores of totals [N] in the units of the series."""
    part = output[slice(*rows)]
    if not np.isfinite(part).all():
        raise ValueError("the series begins too late: some rows to score have no earlier value")
    targets = problem.first + np.arange(*rows) + problem.ahead
    return _scores(problem, part, problem.series.total()[targets])


def _scores(problem: DemandForecast, output: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, float]:
    """The scores of outputs [rows] in the units of the series: the error of a change is that of the new total."""
    error = torch.from_numpy((output - y) / problem.deviation)[:, None]
    return Forecasting().scores(error, torch.zeros_like(error))
