"""A table as a problem: its tokens, the changes that are forecast from them, and their split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from nystream.data.row_splits import RowSplit, per_table
from nystream.data.table import counted
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import TableRows
from nystream.data.trees import Trees, fit_trees
from nystream.train import Forecasting, StreamData

DROPOUT = 0.1  # of a Transformer beside a linear path
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
    def ahead(self) -> NDArray[np.float32]:
        """[N, targets · horizons]: the change after each horizon, in units of `rows.scale`; NaN if it is unknown."""
        base, known, count = self.rows.base, self.rows.known, len(self.rows.base) - self.horizon
        change = np.empty((count, base.shape[1], len(self.horizons)))
        for place, ahead in enumerate(self.horizons):
            later = slice(ahead, ahead + count)
            change[..., place] = np.where(known[later], base[later] - base[:count], np.nan)
            for first in self.split.tables[1:]:  # nothing is known after the end of a table
                change[first - ahead : first, :, place] = np.nan
        if self.rows.scale is not None:
            change /= self.rows.scale[:count, :, None]
        return change.reshape(count, -1).astype(np.float32)

    @cached_property
    def y(self) -> NDArray[np.float32]:
        """[N, outputs]: the same, with one column for each quantile."""
        return np.repeat(self.ahead, self.layout.shape[2], 1)

    @property
    def longest(self) -> int:
        return self.edges("train")[1]

    def edges(self, name: PartName) -> tuple[int, int]:
        """Return the first row of a part, and the one after its last."""
        return (0, len(self.y)) if name == "all" else self.split.parts[name]

    def part(self, name: PartName, warm: int) -> StreamData:
        if name == "all":
            tables = [slice(first, first + len(x) - self.horizon) for first, x in self._tables(self.rows.x)]
            return StreamData([self.rows.x[rows] for rows in tables], [self.y[rows] for rows in tables])
        rows = self.read_rows(name, warm)
        return StreamData([self.rows.x[rows]], [self.y[rows]])

    def _tables(self, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The first row of each table, and its rows."""
        return zip(self.split.tables, per_table(self.split, values), strict=True)

    def read_rows(self, name: PartName, warm: int) -> slice:
        """The rows of a part, and those of the same table before it that fill its window.

        So all of its rows are scored, unless it is a table of its own.
        """
        start, stop = self.edges(name)
        origin = self.split.origin(start)
        if not self.fills(name, warm):
            raise ValueError(
                f"{name} has {counted(stop - origin, 'row')} to forecast from, the {self.split.names[name]}, but the "
                f"first {warm} only fill the window: give a longer table, or a shorter window"
            )
        return slice(max(origin, start - warm), stop)

    def fills(self, name: PartName, warm: int) -> bool:
        start, stop = self.edges(name)
        origin = self.split.origin(start)
        return not origin or stop - origin > warm  # the source is checked with the window

    def missed(self, data: StreamData, name: PartName, warm: int) -> StreamData:
        """The data of a part as returned by `part`, or with a teacher's outputs, for what the linear path misses."""
        assert self.start is not None
        return beside(self.start, data, self.read_rows(name, warm))

    def scored(self, name: PartName, warm: int) -> NDArray[np.int64]:
        """Return the numbers of the scored rows of a part."""
        start, stop = self.edges(name)
        return np.arange(max(start, self.split.origin(start) + warm), stop)

    def truth(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values [N, targets, horizons] that are forecast from these rows; NaN if they are unknown."""
        truth = np.stack([self.rows.base[rows + ahead] for ahead in self.horizons], 2)  # `ahead` is rounded to float32
        return np.where(np.isfinite(self.ahead[rows]).reshape(truth.shape), truth, np.nan)

    def scale(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        return None if self.rows.scale is None else self.rows.scale[rows]

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        rows, layout = self.scored(name, warm), self.layout
        known = y.numpy()[:, :: layout.shape[2]]
        return self._errors(rows, changes(output.numpy(), layout, self.scale(rows)), layout, known)

    def _errors(
        self, rows: NDArray[np.int64], change: NDArray[np.float64], layout: Layout, y: NDArray[Any] | None = None
    ) -> Scores:
        """The errors of changes [N, targets, horizons, quantiles]; y [N, targets · horizons] has the true ones."""
        ahead = layout._replace(quantiles=())
        true = changes(self.ahead[rows] if y is None else y, ahead, self.scale(rows))[..., 0]
        if layout.minimum is not None or layout.quantiles:
            # Of values, not of rounded changes: whether one is below a quantile or at the minimum must be exact.
            base = self.rows.base[rows][..., None]
            change = forecasts(change.reshape(len(rows), -1), layout, base[..., 0]) - base[..., None]
            true = self.truth(rows) - base
        return errors(change, true, self.info.labels, layout.horizons, layout.quantiles)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        rows = self.scored(name, warm)
        layout = self.layout._replace(quantiles=())  # each gives one number
        before = int(rows[0]) - self.split.origin(int(rows[0]))
        change = np.zeros((len(rows), *layout.shape))
        baselines = {"persistence": self._errors(rows, change, layout)}
        for cycle, seconds in CYCLES.items():
            lag = self.rows_in(seconds)
            # The value of a cycle ago must be known at every scored row.
            there = [ahead < lag <= before + ahead for ahead in self.horizons]
            if any(there):
                change = np.full((len(rows), *layout.shape), np.nan)
                for place in np.flatnonzero(there):
                    ago = rows + self.horizons[place] - lag
                    change[:, :, place, 0] = self.rows.base[ago] - self.rows.base[rows]
                found = self._errors(rows, change, layout)
                baselines[cycle] = {score: value for score, value in found.items() if all(there) or not np.isnan(value)}
        # Trees are fitted to the training rows, so they are no baseline for all rows.
        if self.start is not None and name in ("valid", "test") and (trees := self.trees[0]) is not None:
            change = changes(trees.predict(self.rows.x[rows]), layout, self.scale(rows))
            baselines = {"boosted trees": self._errors(rows, change, layout), **baselines}
        return baselines

    @cached_property
    def trees(self) -> tuple[Trees | None, str]:
        """Boosted trees on the same tokens, or None, and a note on them."""
        train, valid = (slice(*self.edges(name)) for name in ("train", "valid"))
        return fit_trees(self.rows.x[train], self.ahead[train], self.rows.x[valid], self.ahead[valid])

    def rows_in(self, seconds: float) -> int:
        """The number of rows in a period; 0 if it is not a whole number, or not the same everywhere."""
        if self.rows.time is None or self.reader.step is None:
            return 0
        lag = round(seconds / self.reader.step)
        source, *others = per_table(self.split, self.rows.time)
        if lag != seconds / self.reader.step or len(source) <= lag:
            return 0
        apart = np.concatenate([(time[lag:] - time[:-lag]) / np.timedelta64(1, "s") for time in (source, *others)])
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
