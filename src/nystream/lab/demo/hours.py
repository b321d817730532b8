"""The held-out weeks as a live stream: an hour comes, a forecast of the next one goes out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nystream.lab.demo.models import WINDOW
from nystream.lab.tasks.electricity import DemandForecast
from nystream.models import StreamModel
from nystream.stream import StreamPool

WEEK = 168  # hours


class Hour(NamedTuple):
    """A forecast, made an hour before, and what came of it; megawatts."""

    time: np.datetime64  # that is forecast
    forecast: float
    truth: float
    before: float  # the last total that was known: what persistence forecasts
    microseconds: float  # of the step

    @property
    def missed(self) -> float:
        """Forecast minus truth, as a share of the truth."""
        return (self.forecast - self.truth) / self.truth


class DemandStream:
    """The held-out hours through a model, one push an hour."""

    def __init__(self, problem: DemandForecast, model: StreamModel, weeks: int) -> None:
        self.problem = problem
        self.pool = StreamPool(model)
        self.sid = self.pool.open()
        self.start = problem.edges[1]
        self.count = min(weeks * WEEK, len(problem.x) - self.start)
        tokens = problem.x.numpy()
        for row in range(self.start - WINDOW + 1, self.start):  # the stream has been running for a while
            self.pool.push(self.sid, tokens[row])
        self.tokens = tokens[self.start : self.start + self.count]

    @property
    def bytes_per_stream(self) -> int:
        return self.pool.bytes_per_stream

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Hour]:
        problem, ahead = self.problem, self.problem.ahead
        times = problem.series.time[problem.first + self.start + ahead :]
        known = problem.last[self.start : self.start + self.count, 0]
        change = problem.y[self.start : self.start + self.count, 0].numpy()
        for x, when, last, moved in zip(self.tokens, times, known, change, strict=False):
            began = time.perf_counter()
            y = self.pool.push(self.sid, x)
            took = time.perf_counter() - began
            yield Hour(when, float(last + y[0]), float(last + moved), float(last), took * 1e6)


class Tally:
    """How far off the forecasts were so far, and how long the steps took."""

    def __init__(self) -> None:
        self.hours: list[Hour] = []
        self.widest = 0.0  # the largest error, as a share of the truth
        self._missed = self._still = self._share = 0.0

    def add(self, hour: Hour) -> None:
        self.hours.append(hour)
        self.widest = max(self.widest, abs(hour.missed))
        self._missed += abs(hour.forecast - hour.truth)
        self._still += abs(hour.before - hour.truth)
        self._share += abs(hour.missed)

    @property
    def error(self) -> float:
        """Mean error, megawatts."""
        return self._missed / max(len(self.hours), 1)

    @property
    def persistence(self) -> float:
        """Mean error of saying that nothing changes, megawatts."""
        return self._still / max(len(self.hours), 1)

    @property
    def share(self) -> float:
        """Mean error as a share of the truth."""
        return self._share / max(len(self.hours), 1)

    @property
    def microseconds(self) -> float:
        """Median of the last steps."""
        return float(np.median([hour.microseconds for hour in self.hours[-1000:]])) if self.hours else 0.0
