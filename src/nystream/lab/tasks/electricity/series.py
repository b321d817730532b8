"""Many quantities, measured at the same, evenly spaced times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import listed


@dataclass(frozen=True, eq=False)
class Series:
    """N rows, oldest first, with one value per name.

    Args:
        values: [N, names] float32, all finite.
        time: [N] datetime64, evenly spaced; each loader documents the clock, and the part of the interval it marks.
        names: Names of the areas or customers.
        known: [N, names] whether the value was measured, or filled in by the source.
    """

    values: NDArray[np.float32]
    time: NDArray[np.datetime64]
    names: tuple[str, ...]
    known: NDArray[np.bool_]

    def __post_init__(self) -> None:
        shape = (len(self.time), len(self.names))
        if 0 in shape:
            raise ValueError(f"a series needs at least one row and one name, but time and names have {shape}")
        for label, array in (("values", self.values), ("known", self.known)):
            if array.shape != shape:
                raise ValueError(f"{label} is {list(array.shape)}, but by time and names it must be {list(shape)}")
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"names has {twice} more than once")
        if not np.isfinite(self.values).all():
            raise ValueError("values has numbers that are not finite")
        steps = np.diff(self.time)
        if len(steps) and (steps[0] <= np.timedelta64(0, "s") or (steps != steps[0]).any()):
            row = int(np.flatnonzero((steps != steps[0]) | (steps <= np.timedelta64(0, "s")))[0])
            raise ValueError(
                f"time must increase in even steps, but goes from {self.time[row]} to {self.time[row + 1]} "
                f"after row {row}, counted from 0"
            )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.time)

    @property
    def step(self) -> np.timedelta64:
        """Time between two rows."""
        if len(self) < 2:
            raise ValueError("a series of one row has no step")
        return self.time[1] - self.time[0]

    def total(self) -> NDArray[np.float64]:
        """[N]: the sum of every row."""
        return self.values.sum(1, dtype=np.float64)

    def rows(self, hours: float, what: str) -> int:
        """Convert hours to a number of rows; `what` is the name of the argument, for errors."""
        exact = hours * (np.timedelta64(1, "h") / self.step)
        whole = round(float(exact))
        if whole < 1 or abs(exact - whole) > 1e-6:
            minutes = self.step / np.timedelta64(1, "m")
            raise ValueError(
                f"{what}={hours!r} hours must be a whole number of steps of {minutes:g} minutes, 1 or more"
            )
        return whole

    def select(self, names: Sequence[str] | None = None, rows: slice | None = None) -> Self:
        """Select names, in the given order, and a range of rows."""
        chosen = self.names if names is None else tuple(names)
        missing = [name for name in chosen if name not in self.names]
        if missing:
            raise ValueError(f"names has {missing}, but the series has only {listed(self.names)}")
        columns = [self.names.index(name) for name in chosen]
        part: Any = slice(None) if rows is None else rows
        return type(self)(self.values[part][:, columns], self.time[part], chosen, self.known[part][:, columns])
