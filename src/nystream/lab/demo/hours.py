"""The held-out weeks as a live stream: every hour, a forecast of the next one."""

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
    """A forecast, made an hour before, and the truth, in megawatts."""

    time: np.datetime64  # of the hour that is forecast
    forecast: float
    truth: float
    before: float  # the last known total: the forecast of persistence
    microseconds: float  # of the step

    @property
    def missed(self) -> float:
        """Forecast minus truth, relative to the truth."""
        return (self.forecast - self.truth) / self.truth


class DemandStream:
    """The held-out hours, pushed through a model one by one."""

    def __init__(self, problem: DemandForecast, model: StreamModel, weeks: int) -> None:
        self.problem = problem
        self.pool = StreamPool(model)
        self.sid = self.pool.open()
        self.start = problem.edges[1]
        self.count = min(weeks * WEEK, len(problem.x) - self.start)
        tokens = problem.x.numpy()
        for row in range(self.start - WINDOW + 1, self.start):  # fill the window
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
    """Errors of the forecasts so far, and times of the steps."""

    def __init__(self) -> None:
        self.hours: list[Hour] = []
        self.widest = 0.0  # the largest error, relative to the truth
        self._error = self._persistence = self._share = 0.0  # sums

    def add(self, hour: Hour) -> None:
        self.hours.append(hour)
        self.widest = max(self.widest, abs(hour.missed))
        self._error += abs(hour.forecast - hour.truth)
        self._persistence += abs(hour.before - hour.truth)
        self._share += abs(hour.missed)

    @property
    def error(self) -> float:
        """Mean error in megawatts."""
        return self._error / max(len(self.hours), 1)

    @property
    def persistence(self) -> float:
        """Mean error of persistence, which forecasts no change, in megawatts."""
        return self._persistence / max(len(self.hours), 1)

    @property
    def share(self) -> float:
        """Mean error relative to the truth."""
        return self._share / max(len(self.hours), 1)

    @property
    def microseconds(self) -> float:
        """Median time of the last steps."""
        return float(np.median([hour.microseconds for hour in self.hours[-1000:]])) if self.hours else 0.0
