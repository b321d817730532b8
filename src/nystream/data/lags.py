"""Which rows of the past a forecast should look at: the last ones, and those a day and a week before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nystream.data.calendar import DAY, WEEK

HOUR = 3600.0  # seconds
LAST = 24  # rows before the newest one
CYCLES = 2  # the newest known rows of so many days and weeks
BESIDE = 4  # rows on both sides of those
MAX_LAG = 4096  # rows, which every stream keeps
MAX_NUMBERS = 256  # differences in a token; many targets have fewer rows each
HARMONICS = {DAY: range(1, 7), WEEK: range(1, 17)}  # multiples of the frequency of a cycle


def choose_lags(step: float | None, horizons: Sequence[int], rows: int, targets: int) -> tuple[int, ...]:
    """Return the lags of a forecast, in rows before the newest one, in rising order.

    They are the last rows and, if a day or a week is a whole number of rows, those at the time of the forecast in the
    last days and weeks that are known by now, with their neighbours. A lag is at most a quarter of the training data.
    Of several horizons, each has those of its own time; if that is too much for a token, the largest one alone has.

    Args:
        step: Seconds between rows; None if unknown.
        horizons: Numbers of rows ahead that are forecast, in rising order.
        rows: Number of rows of the training data.
        targets: Number of targets, each of which has all lags.

    Example:
        >>> from nystream.data.lags import choose_lags
        >>> lags = choose_lags(3600.0, horizons=[1], rows=10_000, targets=1)
        >>> lags[:3], [lag for lag in lags if 19 <= lag <= 27], lags[-1]
        ((1, 2, 3), [19, 20, 21, 22, 23, 24, 25, 26, 27], 339)
    """
    most = min(MAX_LAG, rows // 4)
    for ahead, cycles, last, beside in _choices(horizons):
        lags = {*range(1, last + 1)}
        for newest in _newest_known(step, ahead, cycles):
            lags |= {*range(newest - beside, newest + beside + 1)}
        chosen = tuple(sorted(lag for lag in lags if 1 <= lag <= most))
        if targets * len(chosen) <= MAX_NUMBERS:
            break
    return chosen or (1,)


def _choices(horizons: Sequence[int]) -> Iterator[tuple[Sequence[int], int, int, int]]:
    """Horizons, numbers of cycles, last rows and neighbours, those with the most lags first."""
    several = [(horizons, CYCLES), (horizons, 1)] if len(horizons) > 1 else []
    for ahead, cycles in (*several, (horizons[-1:], CYCLES)):
        for last, beside in ((LAST, BESIDE), (LAST // 2, 2), (4, 1), (2, 0), (1, 0)):
            yield ahead, cycles, last, beside


def _newest_known(step: float | None, horizons: Sequence[int], cycles: int) -> set[int]:
    """How many rows ago it was the time of a forecast, in the last known days and weeks."""
    lags: set[int] = set()
    if step is None:
        return lags
    for cycle in (DAY, WEEK):
        length = cycle * HOUR / step
        if length >= 2 and math.isclose(length, round(length)):
            for horizon in horizons:
                first = math.ceil(horizon / round(length))
                lags |= {k * round(length) - horizon for k in range(first, first + cycles)}
    return lags


def harmonics(cycles: Sequence[float], step: float) -> tuple[float, ...]:
    """Return the periods of the harmonics of cycles that rows are close enough for; all in hours.

    Those of the week that are not multiples of a day let the daily pattern differ between days.

    Example:
        >>> from nystream.data.lags import harmonics
        >>> harmonics([24.0], step=3.0)
        (24.0, 12.0, 8.0, 6.0)
    """
    periods = {cycle / k for cycle in cycles for k in HARMONICS.get(cycle, range(1, 2))}
    return tuple(sorted((period for period in periods if period >= 2 * step), reverse=True))
