"""The time of day and of the week as inputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

DAY, WEEK = 24.0, 168.0  # hours
CACHED_ANGLES = 4096  # more than the quarters of an hour of a week


def time_features(time: Any, periods: Sequence[float] = (DAY, WEEK)) -> NDArray[np.float64]:
    """Return the sine and cosine of the phase of each time in each period, [N, 2 · periods].

    Args:
        time: [N] datetime64, at any spacing, in any time zone.
        periods: In hours; by default a day and a week.

    Example:
        >>> import numpy as np
        >>> from nystream.data.calendar import time_features
        >>> hours = np.array(["2024-01-01T03", "2024-01-01T04"], "datetime64[h]")
        >>> time_features(hours, periods=[24]).round(2).tolist()
        [[0.71, 0.71], [0.87, 0.5]]
    """
    stamps = np.asarray(time)
    if stamps.dtype.kind != "M" or stamps.ndim != 1:
        raise ValueError(f"time is {stamps.dtype} {list(stamps.shape)}, but must be datetime64 [N]")
    if np.isnat(stamps).any():
        raise ValueError("time contains NaT")
    if not periods or min(periods) <= 0:
        raise ValueError(f"periods={periods!r} must be at least one number of hours, each above 0")
    seconds = stamps.astype("datetime64[s]").astype(np.int64)
    waves = []
    for period in periods:
        angle = 2 * np.pi * np.mod(seconds, period * 3600) / (period * 3600)
        waves += [np.sin(angle), np.cos(angle)]
    return np.column_stack(waves)


@lru_cache(CACHED_ANGLES)
def sines(angles: tuple[float, ...]) -> tuple[float, ...]:
    """Return the sine and cosine of every angle, by numpy, so that they are bitwise those of `time_features`."""
    return tuple(np.stack([np.sin(angles), np.cos(angles)], 1).ravel().tolist())
