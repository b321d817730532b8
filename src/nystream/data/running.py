"""Running mean and standard deviation of the columns of a series, by which its rows are scaled.

Row t of a series changes them as follows, in Welford's form, with c = min(t, limit):

    d = x − μ,    μ ← μ + d / c,    v ← v + (d · (x − μ) − v) / c

Up to the limit these are the mean and the variance of all rows so far; after it, old rows are forgotten exponentially.
The row itself counts, so |x − μ| ≤ √(c − 1) · √v. All faces of a reader call `advance`, whose operations are the same
for one series and for many, so that they agree in every bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Running(NamedTuple):
    """Statistics of a series, or of several [...]."""

    seen: NDArray[np.int64]  # [...]: the number of rows so far, at most the limit
    mean: Array  # [..., columns]
    variance: Array  # [..., columns]

    @property
    def std(self) -> Array:
        return np.sqrt(self.variance)

    def at(self, rows: Any) -> Running:
        """Those of some rows or series."""
        return Running(self.seen[rows], self.mean[rows], self.variance[rows])


def no_rows(columns: int, shape: tuple[int, ...] = ()) -> Running:
    """The statistics before the first row."""
    return Running(np.zeros(shape, np.int64), np.zeros((*shape, columns)), np.zeros((*shape, columns)))


def advance(running: Running, values: Array, limit: int) -> Running:
    """The statistics after one more row of each series, values [..., columns]."""
    count = np.asarray(np.minimum(running.seen + 1, limit))
    rows = count[..., None]
    with np.errstate(over="ignore", invalid="ignore"):  # see `in_units`
        off = values - running.mean
        mean = running.mean + off / rows
        variance = running.variance + (off * (values - mean) - running.variance) / rows
    return Running(count, mean, variance)


def over_rows(values: Array, starts: Sequence[int], limit: int) -> Running:
    """The statistics after every row [N, columns] of series that lie one after another and begin at `starts`."""
    first = np.asarray(starts, np.int64)
    length = np.diff(np.append(first, len(values)))
    first = first[np.argsort(-length, kind="stable")]  # longest first, so that those with a row t are the first ones
    left = np.sort(length)
    every = no_rows(values.shape[1], (len(values),))
    now = no_rows(values.shape[1], (len(first),))
    for t in range(int(length.max(initial=0))):
        alive = len(left) - int(np.searchsorted(left, t, side="right"))
        rows = first[:alive] + t
        now = advance(now.at(slice(alive)), values[rows], limit)
        for part, new in zip(every, now, strict=True):
            part[rows] = new
    return every


def in_units(difference: Array, std: Array) -> Array:
    """Differences in units of a standard deviation: 0 where that is 0, and infinite where it is not finite.

    It is not finite after numbers that are too large to be squared. Their tokens are rejected, as all are that are not
    finite.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units: Array = np.where(std > 0, difference / std, 0.0)
    return np.where(np.isfinite(std), units, np.inf)
