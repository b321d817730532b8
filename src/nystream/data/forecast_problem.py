"""A table as a problem: its tokens, the changes that are forecast from them, and their split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
            change /= self.rows.scale[:-ahead]
        for first in self.split.tables[1:]:  # nothing is known after the end of a table
            change[first - ahead : first] = np.nan
        return change.astype(np.float32)

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

    def changes(self, values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return outputs or targets of these rows in the user's units."""
        return changes(values, None if self.rows.scale is None else self.rows.scale[rows])

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        rows = self.scored(name, warm)
        return errors(self.changes(output.numpy(), rows), self.changes(y.numpy(), rows), self.info.labels)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        rows = self.scored(name, warm)
        y = self.changes(self.y[rows], rows)
        before = int(rows[0]) - self.split.origin(int(rows[0]))
        baselines = {"persistence": errors(np.zeros_like(y), y, self.info.labels)}
        for cycle, seconds in CYCLES.items():
            lag = self.rows_in(seconds)
            # The value of a cycle ago must be known at every scored row.
            if self.horizon < lag <= before + self.horizon:
                change = self.rows.base[rows + self.horizon - lag] - self.rows.base[rows]
                baselines[cycle] = errors(change, y, self.info.labels)
        # Trees are fitted to the training rows, so they are no baseline for all rows.
        if self.start is not None and name in ("valid", "test") and (trees := self.trees[0]) is not None:
            change = self.changes(trees.predict(self.rows.x[rows]), rows)
            baselines = {"boosted trees": errors(change, y, self.info.labels), **baselines}
        return baselines

    @cached_property
    def trees(self) -> tuple[Trees | None, str]:
        """Boosted trees on the same tokens, or None, and a note on them."""
        train, valid = (slice(*self.edges(name)) for name in ("train", "valid"))
        return fit_trees(self.rows.x[train], self.y[train], self.rows.x[valid], self.y[valid])

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
