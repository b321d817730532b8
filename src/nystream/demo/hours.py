"""The held-out weeks as a live stream: an hour comes, a forecast of the next one goes out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nystream.demo.models import WINDOW, Trained
from nystream.stream import StreamPool


class Hour(NamedTuple):
    """A forecast, made an hour before, and what came of it; megawatts."""

    time: np.datetime64  # that is forecast
    forecast: float
    truth: float
    before: float  # the last total that was known: what persistence forecasts
    microseconds: float  # of the step


class Stream:
    """The held-out hours through the model with fixed landmarks, one push an hour."""

    def __init__(self, trained: Trained, weeks: int) -> None:
        problem = trained.problem
        self.problem = problem
        self.pool = StreamPool(trained.models["co-fixed-single"])
        self.sid = self.pool.open()
        self.start = problem.edges[1]
        self.count = min(weeks * 168, len(problem.x) - self.start)
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
    """Errors so far, in units of the deviation of the total, and how long the steps took."""

    def __init__(self, deviation: float) -> None:
        self.deviation = deviation
        self.hours: list[Hour] = []
        self._squares = [0.0, 0.0]
        self._share = 0.0

    def add(self, hour: Hour) -> None:
        self.hours.append(hour)
        for place, guess in enumerate((hour.forecast, hour.before)):
            self._squares[place] += ((guess - hour.truth) / self.deviation) ** 2
        self._share += abs(hour.forecast - hour.truth) / hour.truth

    @property
    def mse(self) -> float:
        """Of the model."""
        return self._squares[0] / max(len(self.hours), 1)

    @property
    def persistence(self) -> float:
        """Of saying that nothing changes."""
        return self._squares[1] / max(len(self.hours), 1)

    @property
    def share(self) -> float:
        """Mean error as a share of the truth."""
        return self._share / max(len(self.hours), 1)

    @property
    def microseconds(self) -> float:
        """Median of the last steps."""
        return float(np.median([hour.microseconds for hour in self.hours[-1000:]])) if self.hours else 0.0
