"""A table as a problem: its tokens, the changes that are forecast from them, and their split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import ModelInfo
from nystream.data.forecast_scores import errors
from nystream.data.forecast_values import Layout, changes, forecasts, layout_of, middle
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
PERIODS = 3  # of validation data
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

    short = 0.0

    @cached_property
    def task(self) -> Forecasting:  # type: ignore[override]
        return Forecasting(quantiles=self.info.quantiles)

    @property
    def horizons(self) -> tuple[int, ...]:
        """All numbers of rows ahead; `horizon` is the largest."""
        return self.info.horizons or (self.horizon,)

    @property
    def output_dim(self) -> int:
        return len(self.info.labels) * len(self.horizons) * max(1, len(self.info.quantiles))

    @cached_property
    def layout(self) -> Layout:
        """What the outputs of a model are."""
        return layout_of(self.info, self.output_dim)

    @property
    def dropout(self) -> float:  # type: ignore[override]
        return 0.0 if self.start is None else DROPOUT

    @cached_property
    def _true_changes(self) -> NDArray[np.float64]:
        """[N, targets, horizons]: the change after each horizon, in the user's units; NaN if it is unknown."""
        base, known, count = self.rows.base, self.rows.known, len(self.rows.base) - self.horizon
        change = np.empty((count, base.shape[1], len(self.horizons)))
        for place, ahead in enumerate(self.horizons):
            later = slice(ahead, ahead + count)
            change[..., place] = np.where(known[later], base[later] - base[:count], np.nan)
            for first in self.split.tables[1:]:  # nothing is known after the end of a table
                change[max(first - ahead, 0) : first, :, place] = np.nan
        return change

    @cached_property
    def ahead(self) -> NDArray[np.float32]:
        """[N, targets · horizons]: the same, in units of `rows.scale`; NaN also where that is 0 or still a guess."""
        change = self._true_changes
        if self.rows.scale is not None:
            change = in_known_units(change, self.rows.scale[: len(change), :, None], self.split.tables)
        return change.reshape(len(change), -1).astype(np.float32)

    @cached_property
    def y(self) -> NDArray[np.float32]:
        """[N, outputs]: the same, with one column for each quantile."""
        return np.repeat(self.ahead, self.layout.shape[2], 1)

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

    def periods(self, name: PartName, warm: int) -> NDArray[np.int64]:
        """Return which third of its part of a series each scored row is in: 0, 1 or 2."""
        tables = self.split.table_of(self.scored(name, warm))
        _, first, which, count = np.unique(tables, return_index=True, return_inverse=True, return_counts=True)
        return np.asarray(PERIODS * (np.arange(len(tables)) - first[which]) // count[which])

    def truth(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values [N, targets, horizons] that are forecast from these rows; NaN if they are unknown."""
        truth = np.stack([self.rows.base[rows + ahead] for ahead in self.horizons], 2)
        return np.where(np.isnan(self._true_changes[rows]), np.nan, truth)

    def known(self, name: PartName) -> NDArray[np.bool_]:
        """Return which targets are known in some row of a part."""
        return np.asarray((~np.isnan(self._true_changes[self.row_numbers(name)])).any((0, 2)))

    def scale(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return None if self.rows.scale is None else self.rows.scale[rows]

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        rows, layout = self.scored(name, warm), self.layout
        known = None if self.split.series else y.numpy()[:, :: layout.shape[2]]
        return self._errors(rows, changes(output.numpy(), layout, self.scale(rows)), layout, known)

    def _changes(
        self, rows: NDArray[np.int64], change: NDArray[np.float64], layout: Layout, y: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Forecast changes [N, targets, horizons, quantiles] and true ones [N, targets, horizons], in the user's units.

        Of series, every change counts, also where they are too large, or their scale too small, to be learned from.
        """
        ahead = layout._replace(quantiles=())
        true = self._true_changes[rows]
        if y is not None:
            true = changes(y, ahead, self.scale(rows))[..., 0]
        if layout.minimum is not None or layout.quantiles:
            # Of values, not of rounded changes: whether one is below a quantile or at the minimum must be exact.
            base = self.rows.base[rows][..., None]
            change = forecasts(change.reshape(len(rows), -1), layout, base[..., 0]) - base[..., None]
            true = self.truth(rows) - base
        return change, true

    def _errors(
        self, rows: NDArray[np.int64], change: NDArray[np.float64], layout: Layout, y: NDArray[Any] | None = None
    ) -> Scores:
        """The errors of changes [N, targets, horizons, quantiles]; y [N, targets · horizons] has the true ones."""
        change, true = self._changes(rows, change, layout, y)
        if not self.split.series:
            return errors(change, true, self._last_value(rows), self.info.labels, layout.horizons, layout.quantiles)
        found = series_errors(change, true, self._last_value(rows), self.split.table_of(rows), layout.quantiles)
        return mean_errors(found, self.info.labels, layout.horizons)

    def _last_value(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The changes [N, targets, 1] of persistence: none, but up to the minimum."""
        base, least = self.rows.base[rows][..., None], self.info.minimum
        return np.zeros_like(base) if least is None else np.maximum(base, least) - base

    def series_scores(self, name: PartName, warm: int, output: Tensor) -> dict[str, Scores]:
        """The errors of every series that has scored rows, by name; empty if there is a single series."""
        if not self.split.series:
            return {}
        rows, layout = self.scored(name, warm), self.layout
        change, true = self._changes(rows, changes(output.numpy(), layout, self.scale(rows)), layout)
        found = series_errors(change, true, self._last_value(rows), self.split.table_of(rows), layout.quantiles)
        return scores_by_series(found, self.split.series)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        rows = self.scored(name, warm)
        layout = self.layout._replace(quantiles=())  # each gives one number
        change = np.zeros((len(rows), *layout.shape))
        baselines = {"persistence": self._errors(rows, change, layout)}
        origins = np.asarray(self.split.tables)[self.split.table_of(rows)]
        for cycle, seconds in CYCLES.items():
            lag, ahead = self.rows_in(seconds), np.array(self.horizons)
            if lag <= ahead[0]:
                continue
            # The value of a cycle ago, or of several, must be known at every scored row; short series may lack it.
            ago = rows[:, None] + ahead - lag * -(-ahead // lag)  # [N, horizons]
            known = ago >= origins[:, None]
            if known.mean() >= (ENOUGH if self.split.series else 1.0):
                values = self.rows.base[np.where(known, ago, rows[:, None])]  # [N, horizons, targets]
                change = (values - self.rows.base[rows][:, None]).swapaxes(1, 2)[..., None]
                baselines[cycle] = self._errors(rows, change, layout)
        # Trees are fitted to the training rows, so they are no baseline for all rows.
        if self.start is not None and name in ("valid", "test") and (trees := self.trees[0]) is not None:
            change = changes(trees.predict(self.rows.x[rows]), layout, self.scale(rows))
            baselines = {"boosted trees": self._errors(rows, change, layout), **baselines}
        return baselines

    @cached_property
    def trees(self) -> tuple[Trees | None, str]:
        """Boosted trees on the same tokens, or None, and a note on them."""
        train, valid = (self.row_numbers(name) for name in ("train", "valid"))
        train, valid = (rows[:: -(-len(rows) // MAX_TREE_ROWS) or 1] for rows in (train, valid))
        y = self.ahead if self.rows.scale is None else learnable(self.ahead)
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


class Levels(NamedTuple):
    """Forecasts and truth of the scored rows, in the user's units.

    Attributes:
        quantiles: [N, targets, horizons, quantiles]; a single number if there are no quantiles.
        forecast: [N, targets, horizons]: that number, or the median.
        truth: Likewise; NaN if it is unknown.
    """

    quantiles: NDArray[np.float64]
    forecast: NDArray[np.float64]
    truth: NDArray[np.float64]


def levels(problem: Forecast, name: PartName, warm: int, output: Tensor) -> Levels:
    """Return the forecasts of the scored rows of a part, given the outputs for them."""
    rows = problem.scored(name, warm)
    values = forecasts(output.numpy(), problem.layout, problem.rows.base[rows], problem.scale(rows))
    return Levels(values, middle(values, problem.layout.quantiles), problem.truth(rows))


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
