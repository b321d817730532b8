"""Errors of forecasts of several series, in the user's units and relative to those of persistence.

Series may be of very different sizes, so the relative errors, whose geometric mean is taken, are the ones to compare:
the ratio of two such means is the mean of the ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.forecast_scores import ERRORS
from nystream.data.problem import Scores

RELATIVE = " relative to persistence"
MEAN, GEOMETRIC_MEAN = ", mean over series", ", geometric mean over series"
LEAST_RATIO = 1e-6  # of a series that is forecast exactly: without a limit, the geometric mean would be 0
MIN_ROWS = 16  # of a series before a change is learned or scored: the scale of fewer rows is a guess
# Changes of a series that was as good as constant are too many times its deviation so far to be learned from.
MAX_CHANGE = 10.0

Array = NDArray[np.float64]


class SeriesErrors(NamedTuple):
    """Errors of S series."""

    numbers: NDArray[np.int64]  # [S], of the series that have scored rows
    ours: Array  # [2, S, targets]: mean absolute and root mean squared errors; NaN if nothing is known
    naive: Array  # likewise, of persistence

    @property
    def relative(self) -> Array:
        """[2, S, targets], NaN where persistence is exact."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.naive > 0, self.ours / self.naive, np.nan)


def in_known_units(change: Array, scale: Array, starts: Sequence[int]) -> Array:
    """Changes [N, targets] in units of the scale; NaN where that is 0, or the series has only begun."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.where(scale > 0, change / scale, np.nan)
    for start in starts:
        units[start : start + MIN_ROWS] = np.nan
    return units


def learnable(y: NDArray[Any]) -> NDArray[Any]:
    """Changes in units of their scale, NaN where they are too large."""
    return np.where(np.abs(y) <= MAX_CHANGE, y, y.dtype.type(np.nan))


def series_errors(output: Array, y: Array, numbers: NDArray[np.int64]) -> SeriesErrors:
    """The errors of each series, given forecast and true changes [N, targets] and the series of each row, in order."""
    known = ~np.isnan(y)
    present, first = np.unique(numbers, return_index=True)

    def two(error: Array) -> Array:
        error = np.where(known, error, 0.0)
        absolute, squared, count = (
            np.add.reduceat(part, first, axis=0) for part in (np.abs(error), np.square(error), known.astype(np.int64))
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.stack([absolute / count, np.sqrt(squared / count)])

    return SeriesErrors(present, two(output - y), two(y))


def mean_errors(errors: SeriesErrors, targets: Sequence[str]) -> Scores:
    """The relative errors of all series and targets, then the errors of each target in the user's units."""
    scores: Scores = {}
    for kind, ratios in zip(ERRORS, errors.relative, strict=True):
        ratio = np.log(np.maximum(ratios[~np.isnan(ratios)], LEAST_RATIO))
        scores[f"{kind}{RELATIVE}{GEOMETRIC_MEAN}"] = float(np.exp(ratio.mean())) if len(ratio) else float("nan")
    for place, name in enumerate(targets):
        of = f" of {name}" if len(targets) > 1 else ""
        for kind, values in zip(ERRORS, errors.ours[:, :, place], strict=True):
            known = values[~np.isnan(values)]
            scores[f"{kind}{of}{MEAN}"] = float(known.mean()) if len(known) else float("nan")
    return scores


def scores_by_series(errors: SeriesErrors, names: Sequence[str]) -> dict[str, Scores]:
    """The errors of every series, means over its targets, by name; the worst relative errors come first."""
    found: dict[str, Scores] = {}
    relative = errors.relative
    for place, number in enumerate(errors.numbers.tolist()):
        values = [errors.ours[:, place].mean(1), relative[:, place].mean(1)]
        found[names[number]] = {
            f"{kind}{suffix}": float(value)
            for suffix, pair in zip(("", RELATIVE), values, strict=True)
            for kind, value in zip(ERRORS, pair, strict=True)
        }
    worst = f"{ERRORS[0]}{RELATIVE}"
    return dict(sorted(found.items(), key=lambda item: -np.nan_to_num(item[1][worst], nan=-1.0)))


def worst_series(scores: Mapping[str, Scores], count: int = 5) -> dict[str, Scores]:
    """The series whose mean absolute error is largest in relation to persistence; those without one are left out."""
    worst = f"{ERRORS[0]}{RELATIVE}"
    return dict([item for item in scores.items() if item[1][worst] == item[1][worst]][:count])
