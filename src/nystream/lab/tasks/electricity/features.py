"""Training data from a series: tokens, a target some hours ahead, and a chronological split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.config.checks import one_of
from nystream.data.calendar import DAY, WEEK, time_features
from nystream.lab.tasks.electricity.series import Series
from nystream.train import StreamData

SPLIT = (0.8, 0.1, 0.1)  # train, valid, test

Target = Literal["total", "change"]
Tokens = Literal["paper", "lags"]


def lagged(series: Series, ahead: int) -> tuple[NDArray[np.float32], int]:
    """[N, 6 · names]: values and their changes over `ahead` rows; and the number of first rows without all of them.

    For every name: its value; its change until now; its change until the same time a day ago, and the one that followed
    then; both again a week ago. Before the start of the series, changes are zero.
    """
    values = series.values.astype(np.float64)
    change = np.zeros_like(values)
    change[ahead:] = values[ahead:] - values[:-ahead]
    columns, first = [values, change], ahead
    for hours in (DAY, WEEK):
        lag = series.rows(hours, "lag")
        if lag < ahead:
            raise ValueError(f"tokens='lags' has changes of {hours:g} hours ago, so horizon must be at most {hours:g}")
        columns += [_earlier(change, lag), _earlier(change, lag - ahead)]
        first = lag + ahead
    return np.column_stack(columns).astype(np.float32), first


def _earlier(rows: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """Every row as it was `lag` rows before; zero before the start."""
    earlier = np.zeros_like(rows)
    earlier[lag:] = rows[: max(len(rows) - lag, 0)]
    return earlier


@dataclass(frozen=True, eq=False)
class DemandForecast:
    """A forecasting problem: a token and a target for every row, in three parts in order of time.

    Tokens are in the units of the series. Fit a model's scalers to the training part only:
    `model.input_scaler.fit(problem.train.x)` and `model.output_scaler.fit(problem.train.y)`.
    """

    series: Series
    x: Tensor  # [N, columns of names + time features]: values of the row, then its time features
    y: Tensor  # [N, 1]: the total `ahead` rows later, or its change until then
    ahead: int
    edges: tuple[int, int]  # rows of x at which validation and test begin
    target: Target = "total"
    tokens: Tokens = "paper"
    times: int = 4  # time features, the last columns of x
    first: int = 0  # row of the series that is row 0 of x

    @cached_property
    def train(self) -> StreamData:
        """The oldest rows. Their last `ahead` targets are in the first validation tokens, before its first target."""
        return self._part(0, self.edges[0])

    @cached_property
    def valid(self) -> StreamData:
        return self._part(*self.edges)

    @cached_property
    def test(self) -> StreamData:
        """The newest rows."""
        return self._part(self.edges[1], len(self.x))

    @property
    def parts(self) -> tuple[StreamData, StreamData, StreamData]:
        """Train, valid and test: one stream each."""
        return self.train, self.valid, self.test

    @cached_property
    def last(self) -> NDArray[np.float64]:
        """[N, 1]: the total of every row, which is known when its forecast is made."""
        return self.series.total()[self.first : self.first + len(self.x), None]

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the totals in training: the unit of all scores, for every target and all tokens."""
        return float(self.series.total()[self.ahead : self.ahead + self.first + self.edges[0]].std())

    def in_totals(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Convert the `mse` and `mae` of a model from units of its own training targets to those of totals.

        The last total is known, so the error of a change is also the error of the new total.
        """
        factor = float(self.y[: self.edges[0]].double().std(correction=0)) / self.deviation
        return {"mse": scores["mse"] * factor**2, "mae": scores["mae"] * factor}

    def _part(self, start: int, stop: int) -> StreamData:
        return StreamData([self.x[start:stop]], [self.y[start:stop]])


def forecast(
    series: Series,
    horizon: float = 1.0,
    split: tuple[float, float, float] = SPLIT,
    periods: Sequence[float] = (DAY, WEEK),
    *,
    target: Target = "total",
    tokens: Tokens = "paper",
) -> DemandForecast:
    """The problem of forecasting the total `horizon` hours ahead, from all values of a row and its time.

    The rows are split in order of time: training targets are older than validation targets, and these older than test
    targets. Validation and test rows are the same for all targets and tokens, so scores are comparable, in the unit of
    `DemandForecast.in_totals`, between models that skip the same number of first rows (`skip` of
    `nystream.train.evaluate`).

    Args:
        series: The measurements.
        horizon: Hours ahead, a whole number of steps of the series: 1 is four steps of 15 minutes.
        split: Shares of the rows for training, validation and testing.
        periods: Cycles of the time features, in hours.
        target: "total", as in the paper, or "change": the difference from the last total, which needs fewer digits.
        tokens: "paper" (all values of the row) or "lags": in addition, for every name, the change over the last
            `horizon` hours, and the changes before and after the same time a day and a week ago. Training then begins a
            week and a horizon later.

    Example:
        >>> from nystream.lab.tasks import electricity
        >>> problem = electricity.forecast(electricity.sample(), horizon=24, target="change")
        >>> list(problem.train.x.shape), list(problem.train.y.shape)
        ([21024, 28], [21024, 1])
    """
    one_of("target", target, ("total", "change"))
    one_of("tokens", tokens, ("paper", "lags"))
    ahead = series.rows(horizon, "horizon")
    if len(split) != 3 or min(split) <= 0 or abs(sum(split) - 1) > 1e-6:
        raise ValueError(f"split={split!r} must be three shares, each greater than 0, that sum to 1")
    rows = len(series) - ahead
    second, third = int(split[0] * rows), int((split[0] + split[1]) * rows)
    known, first = (series.values, 0) if tokens == "paper" or rows <= 0 else lagged(series, ahead)
    if not first < second < third < rows:
        raise ValueError(
            f"series has {len(series)} rows, too few for split={split!r} with targets {ahead} rows ahead"
            + f" and tokens of {first} rows before" * (first > 0)
        )
    time = time_features(series.time[first:rows], periods).astype(np.float32)
    x = torch.from_numpy(np.column_stack([known[first:rows], time]))
    total = series.total()
    wanted = total[first + ahead :] - (total[first:rows] if target == "change" else 0.0)
    y = torch.from_numpy(wanted[:, None].astype(np.float32))
    edges = (second - first, third - first)
    return DemandForecast(series, x, y, ahead, edges, target, tokens, time.shape[1], first)
