"""A table as a problem: its tokens, the changes that are forecast from them, and their split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import ModelInfo
from nystream.data.forecast_scores import errors
from nystream.data.forecast_values import changes, forecasts
from nystream.data.linear_start import LinearStart, beside
from nystream.data.problem import PartName, Problem, Scores
from nystream.data.row_splits import Ranges, RowSplit, numbers_in, per_table
from nystream.data.series_reader import typical_length
from nystream.data.series_scores import in_known_units, learnable, mean_errors, scores_by_series, series_errors
from nystream.data.table import counted
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import TableRows
from nystream.data.trees import Trees, fit_trees
from nystream.train import Forecasting, StreamData

DROPOUT = 0.1  # of a Transformer beside a linear path
MAX_TREE_ROWS = 500_000  # from which their sample is taken
ENOUGH = 0.5  # share of the series that must fill a window, or of their rows that must have a value of a cycle ago
CYCLES = {"a day ago": 86400.0, "a week ago": 7 * 86400.0}  # seconds


@dataclass(frozen=True, eq=False)
class Forecast(Problem):
    """TableRows in order of time, and their split."""

    reader: TableReader
    rows: TableRows
    horizon: int
    info: ModelInfo
    notes: tuple[str, ...]
    split: RowSplit
    start: LinearStart | None = None  # what the model starts from

    task = Forecasting()
    short = 0.0

    @property
    def dropout(self) -> float:  # type: ignore[override]
        return 0.0 if self.start is None else DROPOUT

    @cached_property
    def y(self) -> NDArray[np.float32]:
        """[N, targets]: the change after `horizon` rows, in units of `rows.scale`; NaN if it is unknown."""
        base, ahead = self.rows.base, self.horizon
        change = np.where(self.rows.known[ahead:], base[ahead:] - base[:-ahead], np.nan)
        if self.rows.scale is not None:
            change = in_known_units(change, self.rows.scale[:-ahead], self.split.tables)
        for first in self.split.tables[1:]:  # nothing is known after the end of a table
            change[max(first - ahead, 0) : first] = np.nan
        return change.astype(np.float32)

    @property
    def longest(self) -> int:
        return max(stop - self.split.origin(start) for start, stop in self.ranges("train"))

    @property
    def usual(self) -> int:
        return typical_length([stop - self.split.origin(start) for start, stop in self.ranges("train")])

    def ranges(self, name: PartName) -> Ranges:
        """The rows of a part: the first row of each range, and the one after its last."""
        if name != "all":
            return self.split.parts[name]
        tables = zip(self.split.tables, (*self.split.tables[1:], len(self.rows.x)), strict=True)
        return tuple((first, stop - self.horizon) for first, stop in tables if stop - self.horizon > first)

    def edges(self, name: PartName) -> tuple[int, int]:
        """Return the first row of a part, and the one after its last."""
        ranges = self.ranges(name)
        return (ranges[0][0], ranges[-1][1]) if ranges else (0, 0)

    def row_numbers(self, name: PartName) -> NDArray[np.int64]:
        """The numbers of all rows of a part."""
        return numbers_in(self.ranges(name))

    def part(self, name: PartName, warm: int) -> StreamData:
        rows = [slice(*range_) for range_ in self.ranges("all")] if name == "all" else self.slices(name, warm)
        y = [self.y[part] for part in rows]
        if name in ("train", "valid") and self.rows.scale is not None:
            y = [learnable(part) for part in y]
        return StreamData([self.rows.x[part] for part in rows], y)

    def slices(self, name: PartName, warm: int) -> list[slice]:
        """The rows of a part, and those of the same table before it that fill its window.

        So all of its rows are scored, unless it is a table of its own. A series that does not fill it is left out.
        """
        if not self.fills(name, warm):
            rows = max(stop - self.split.origin(start) for start, stop in self.ranges(name))
            raise ValueError(
                f"{name} has {counted(rows, 'row')} to forecast from, the {self.split.names[name]}, but the "
                f"first {warm} only fill the window: give a longer table, or a shorter window"
            )
        origins = [(self.split.origin(start), start, stop) for start, stop in self.ranges(name)]
        return [
            slice(max(origin, start - warm), stop)
            for origin, start, stop in origins
            if stop - origin > warm or not self.split.series
        ]

    def fills(self, name: PartName, warm: int) -> bool:
        ranges = [(self.split.origin(start), stop) for start, stop in self.ranges(name)]
        filled = [stop - origin > warm for origin, stop in ranges]
        if self.split.series:
            return sum(filled) >= ENOUGH * len(filled)
        return not ranges[0][0] or filled[0]  # the source is checked with the window

    def missed(self, data: StreamData, name: PartName, warm: int) -> StreamData:
        """The data of a part as returned by `part`, or with a teacher's outputs, for what the linear path misses."""
        assert self.start is not None
        return beside(self.start, data, numbers_in([(part.start, part.stop) for part in self.slices(name, warm)]))

    def scored(self, name: PartName, warm: int) -> NDArray[np.int64]:
        """Return the numbers of the scored rows of a part."""
        return numbers_in([(max(start, self.split.origin(start) + warm), stop) for start, stop in self.ranges(name)])

    def changes(self, values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return outputs or targets of these rows in the user's units."""
        return changes(values, None if self.rows.scale is None else self.rows.scale[rows])

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        rows = self.scored(name, warm)
        truth = self.y[rows] if self.split.series else y.numpy()  # every change counts, not only those learned from
        return self._errors(self.changes(output.numpy(), rows), self.changes(truth, rows), rows)

    def _errors(self, change: NDArray[np.float64], y: NDArray[np.float64], rows: NDArray[np.int64]) -> Scores:
        """The errors of forecast changes, given the true ones; both in the user's units."""
        if not self.split.series:
            return errors(change, y, self.info.labels)
        return mean_errors(series_errors(change, y, self.split.table_of(rows)), self.info.labels)

    def series_scores(self, name: PartName, warm: int, output: Tensor) -> dict[str, Scores]:
        """The errors of every series that has scored rows, by name; empty if there is a single series."""
        if not self.split.series:
            return {}
        rows = self.scored(name, warm)
        change, y = self.changes(output.numpy(), rows), self.changes(self.y[rows], rows)
        return scores_by_series(series_errors(change, y, self.split.table_of(rows)), self.split.series)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        rows = self.scored(name, warm)
        y = self.changes(self.y[rows], rows)
        baselines = {"persistence": self._errors(np.zeros_like(y), y, rows)}
        origins = np.asarray(self.split.tables)[self.split.table_of(rows)]
        for cycle, seconds in CYCLES.items():
            lag = self.rows_in(seconds)
            there = rows + self.horizon - lag >= origins
            # The value of a cycle ago must be known at every scored row; short series may lack it.
            if self.horizon < lag and there.mean() >= (ENOUGH if self.split.series else 1.0):
                before = np.where(there, rows + self.horizon - lag, rows)
                baselines[cycle] = self._errors(self.rows.base[before] - self.rows.base[rows], y, rows)
        # Trees are fitted to the training rows, so they are no baseline for all rows.
        if self.start is not None and name in ("valid", "test") and (trees := self.trees[0]) is not None:
            change = self.changes(trees.predict(self.rows.x[rows]), rows)
            baselines = {"boosted trees": self._errors(change, y, rows), **baselines}
        return baselines

    @cached_property
    def trees(self) -> tuple[Trees | None, str]:
        """Boosted trees on the same tokens, or None, and a note on them."""
        train, valid = (self.row_numbers(name) for name in ("train", "valid"))
        train, valid = (rows[:: -(-len(rows) // MAX_TREE_ROWS) or 1] for rows in (train, valid))
        y = self.y if self.rows.scale is None else learnable(self.y)
        return fit_trees(self.rows.x[train], y[train], self.rows.x[valid], y[valid])

    def rows_in(self, seconds: float) -> int:
        """The number of rows in a period; 0 if it is not a whole number, or not the same everywhere."""
        if self.rows.time is None or self.reader.step is None:
            return 0
        lag = round(seconds / self.reader.step)
        tables = per_table(self.split, self.rows.time)
        source = max(tables, key=len) if self.split.series else tables[0]
        if lag != seconds / self.reader.step or len(source) <= lag:
            return 0
        apart = np.concatenate([(time[lag:] - time[:-lag]) / np.timedelta64(1, "s") for time in tables])
        return lag if (np.abs(apart - seconds) < self.reader.step / 2).all() else 0


def levels(problem: Forecast, name: PartName, warm: int, output: Tensor) -> tuple[NDArray[np.float64], ...]:
    """Return forecasts, truth (NaN if unknown) and last known values of the scored rows, [N, targets] each."""
    rows = problem.scored(name, warm)
    base, known = problem.rows.base[rows], np.isfinite(problem.y[rows])
    truth = problem.rows.base[rows + problem.horizon]  # y is rounded to float32
    scale = None if problem.rows.scale is None else problem.rows.scale[rows]
    return forecasts(output.numpy(), base, scale), np.where(known, truth, np.nan), base


def forecast_info(reader: TableReader, units: Sequence[str], horizon: int) -> ModelInfo:
    return ModelInfo(
        task="forecasting",
        inputs=reader.names,
        labels=reader.targets,
        units=tuple(units),
        horizon=horizon,
        seconds=reader.step,
        reader=reader.to_dict(),
    )
