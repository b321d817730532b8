"""From a series to training data: time embeddings, a target some hours ahead, and a chronological split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.tasks.electricity.series import Series
from nystream.train import StreamData

DAY, WEEK = 24.0, 168.0  # hours
SPLIT = (0.8, 0.1, 0.1)  # train, valid, test


def time_features(time: Any, periods: Sequence[float] = (DAY, WEEK)) -> NDArray[np.float64]:
    """[N, 2 · periods]: sine and cosine of the time of day and of the day of the week, by the clock of `time`.

    `time` is [N] datetime64, at any spacing: what is embedded is the time itself, not a row's number. `periods` are in
    hours.
    """
    stamps = np.asarray(time)
    if stamps.dtype.kind != "M" or stamps.ndim != 1:
        raise ValueError(f"time is {stamps.dtype} {list(stamps.shape)}, but must be datetime64 [N]")
    if np.isnat(stamps).any():
        raise ValueError("time has a stamp that is not a time (NaT)")
    if not periods or min(periods) <= 0:
        raise ValueError(f"periods={periods!r} must be hours, each greater than 0, at least one")
    seconds = stamps.astype("datetime64[s]").astype(np.int64)
    waves = []
    for period in periods:
        angle = 2 * np.pi * np.mod(seconds, period * 3600) / (period * 3600)
        waves += [np.sin(angle), np.cos(angle)]
    return np.column_stack(waves)


@dataclass(frozen=True, eq=False)
class Forecast:
    """A forecasting problem: a token and a target for every row, and where training ends and testing begins.

    Tokens are in the user's units. A model's scalers are fitted to the training part, which holds nothing later:
    `model.input_scaler.fit(problem.train.x)` and `model.output_scaler.fit(problem.train.y)`.
    """

    series: Series
    x: Tensor  # [N, names + time features]: all values of a row, then the embedding of its time
    y: Tensor  # [N, 1]: the total `ahead` rows later
    ahead: int
    edges: tuple[int, int]  # rows at which validation and test begin

    @cached_property
    def train(self) -> StreamData:
        """The oldest rows. Their last `ahead` targets lie where validation tokens begin, before its first target."""
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

    def _part(self, start: int, stop: int) -> StreamData:
        return StreamData([self.x[start:stop]], [self.y[start:stop]])


def forecast(
    series: Series,
    horizon: float = 1.0,
    split: tuple[float, float, float] = SPLIT,
    periods: Sequence[float] = (DAY, WEEK),
) -> Forecast:
    """The total `horizon` hours ahead, from all values of a row and the embedding of its time.

    The rows are split in order of time: no target of one part is a target of another, and every one of training is
    older than every one of validation, which is older than every one of testing. Scores are comparable between models
    that skip the same number of first rows of a part (`skip` of `nystream.train.evaluate`).

    Args:
        series: what was measured.
        horizon: hours ahead, a whole number of the series' steps: 1 is four steps of 15 minutes.
        split: shares of the rows for training, validation and testing.
        periods: hours of the cycles that the time embedding has.
    """
    ahead = series.rows(horizon, "horizon")
    if len(split) != 3 or min(split) <= 0 or abs(sum(split) - 1) > 1e-6:
        raise ValueError(f"split={split!r} must be three shares, each greater than 0, that sum to 1")
    rows = len(series) - ahead
    first, second = int(split[0] * rows), int((split[0] + split[1]) * rows)
    if not 0 < first < second < rows:
        raise ValueError(f"series has {len(series)} rows, too few for split={split!r} with targets {ahead} rows ahead")
    time = time_features(series.time[:rows], periods).astype(np.float32)
    x = torch.from_numpy(np.column_stack([series.values[:rows], time]))
    y = torch.from_numpy(series.total()[ahead:, None].astype(np.float32))
    return Forecast(series, x, y, ahead, (first, second))
