"""Errors of forecasts of several series, in the user's units and relative to those of persistence.

Series may be of very different sizes, so the relative errors, whose geometric mean is taken, are the ones to compare:
the ratio of two such means is the mean of the ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.forecast_scores import ERRORS, PINBALL, ahead, of, pinball_losses, shares
from nystream.data.forecast_values import has_middle, middle
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
    ours: dict[str, Array]  # kind of error -> [S, targets, horizons]; NaN if nothing is known
    naive: dict[str, Array]  # likewise, of persistence
    shares: dict[str, Array]  # of all true values up to quantiles, [targets, horizons]

    @property
    def relative(self) -> dict[str, Array]:
        """Kind of error -> [S, targets, horizons], NaN where persistence is exact."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                kind: np.where(self.naive[kind] > 0, ours / self.naive[kind], np.nan)
                for kind, ours in self.ours.items()
            }


def in_known_units(change: Array, scale: Array, starts: Sequence[int]) -> Array:
    """Changes [N, targets, horizons] in units of the scale; NaN where that is 0, or the series has only begun."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.where(scale > 0, change / scale, np.nan)
    for start in starts:
        units[start : start + MIN_ROWS] = np.nan
    return units


def learnable(y: NDArray[Any]) -> NDArray[Any]:
    """Changes in units of their scale, NaN where they are too large."""
    return np.where(np.abs(y) <= MAX_CHANGE, y, y.dtype.type(np.nan))


def series_errors(
    output: Array, y: Array, naive: Array, numbers: NDArray[np.int64], quantiles: Sequence[float] = ()
) -> SeriesErrors:
    """The errors of each series.

    Args:
        output: Forecast changes [N, targets, horizons, quantiles].
        y: True changes [N, targets, horizons]; NaN if unknown.
        naive: The changes of persistence, likewise.
        numbers: The series of each row, in order.
        quantiles: The levels of the quantiles; none if the forecasts are single numbers.
    """
    known = ~np.isnan(y)
    present, first = np.unique(numbers, return_index=True)
    count = np.add.reduceat(known.astype(np.int64), first, axis=0)

    def mean(losses: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.add.reduceat(np.where(known, losses, 0.0), first, axis=0) / count)

    def two(error: Array) -> dict[str, Array]:
        return dict(zip(ERRORS, (mean(np.abs(error)), np.sqrt(mean(np.square(error)))), strict=True))

    ours, of_naive = two(middle(output, quantiles) - y) if has_middle(quantiles) else {}, two(naive - y)
    if not quantiles:
        return SeriesErrors(present, ours, of_naive, {})
    # The pinball loss of the last value, as all quantiles, is half of its absolute error at the level 0.5.
    of_naive = {PINBALL: of_naive[ERRORS[0]] / 2, **of_naive}
    ours = {PINBALL: mean(pinball_losses(output, y, quantiles)), **ours}
    return SeriesErrors(present, ours, of_naive, shares(output, y, quantiles))


def mean_errors(errors: SeriesErrors, targets: Sequence[str], horizons: Sequence[int] = ()) -> Scores:
    """The relative errors of all series, targets and horizons, then the errors of each target in the user's units.

    For several horizons, the relative errors of each follow.
    """
    relative = errors.relative
    scores = {f"{kind}{RELATIVE}{GEOMETRIC_MEAN}": _geometric_mean(ratios) for kind, ratios in relative.items()}
    for place, name in enumerate(targets):
        for kind, values in errors.ours.items():
            scores[f"{kind}{of(name, targets)}{MEAN}"] = _mean(values[:, place])
        scores |= {f"{what}{of(name, targets)}": float(share[place].mean()) for what, share in errors.shares.items()}
    for column, rows in enumerate(horizons):
        for kind, ratios in relative.items():
            scores[f"{kind}{RELATIVE}{GEOMETRIC_MEAN}{ahead(rows)}"] = _geometric_mean(ratios[..., column])
    return scores


def _geometric_mean(ratios: Array) -> float:
    logs = np.log(np.maximum(ratios[~np.isnan(ratios)], LEAST_RATIO))
    return float(np.exp(logs.mean())) if len(logs) else float("nan")


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def scores_by_series(errors: SeriesErrors, names: Sequence[str]) -> dict[str, Scores]:
    """The errors of every series, means over its targets and horizons, by name; the worst relative errors first."""
    found: dict[str, Scores] = {}
    kinds = {"": errors.ours, RELATIVE: errors.relative}
    for place, number in enumerate(errors.numbers.tolist()):
        found[names[number]] = {
            f"{kind}{suffix}": float(values[place].mean())
            for suffix, by_kind in kinds.items()
            for kind, values in by_kind.items()
        }
    worst = _ranked(errors.ours)
    return dict(sorted(found.items(), key=lambda item: -np.nan_to_num(item[1][worst], nan=-1.0)))


def _ranked(kinds: Mapping[str, Any]) -> str:
    """The score by which series are ordered."""
    return f"{ERRORS[0] if ERRORS[0] in kinds else PINBALL}{RELATIVE}"


def worst_series(scores: Mapping[str, Scores], count: int = 5) -> dict[str, Scores]:
    """The series whose mean absolute error is largest in relation to persistence; those without one are left out."""
    worst = _ranked(next(iter(scores.values()), {ERRORS[0]: 0.0}))
    return dict([item for item in scores.items() if item[1][worst] == item[1][worst]][:count])
