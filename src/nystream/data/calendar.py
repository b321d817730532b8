"""The time of day and of the week, as numbers that a model can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DAY, WEEK = 24.0, 168.0  # hours


def time_features(time: Any, periods: Sequence[float] = (DAY, WEEK)) -> NDArray[np.float64]:
    """[N, 2 · periods]: sine and cosine of the time of day and of the day of the week, by the clock of `time`.

    `time` is [N] datetime64, at any spacing: what is embedded is the time itself, not a row's number. `periods` are in
    hours.

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
        raise ValueError("time has a stamp that is not a time (NaT)")
    if not periods or min(periods) <= 0:
        raise ValueError(f"periods={periods!r} must be hours, each greater than 0, at least one")
    seconds = stamps.astype("datetime64[s]").astype(np.int64)
    waves = []
    for period in periods:
        angle = 2 * np.pi * np.mod(seconds, period * 3600) / (period * 3600)
        waves += [np.sin(angle), np.cos(angle)]
    return np.column_stack(waves)
