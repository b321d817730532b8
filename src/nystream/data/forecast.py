"""Forecasts of columns of a table: by how much they will have changed after some rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import ModelInfo
from nystream.config.checks import positive_int
from nystream.data.problem import SHARES, PartName, Problem, Scores
from nystream.data.reader import Policy
from nystream.data.table import Table
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import Rows, read_rows
from nystream.data.table_schema import find_reader
from nystream.train import Forecasting, StreamData

CYCLES = {"a day ago": 86400.0, "a week ago": 7 * 86400.0}  # seconds
USES: dict[PartName, str] = {
    "train": f"first {SHARES[0]:.0%} of the rows, to train on",
    "valid": f"next {SHARES[1]:.0%} of the rows, to select by",
    "test": f"last {SHARES[2]:.0%} of the rows, to test with",
}


@dataclass(frozen=True, eq=False)
class Forecast(Problem):
    """Rows in order of time, and their split."""

    reader: TableReader
    rows: Rows
    horizon: int
    info: ModelInfo
    notes: tuple[str, ...]

    task = Forecasting()
    short, dropout = 0.0, 0.0

    @cached_property
    def y(self) -> NDArray[np.float32]:
        """[N, targets]: the change after `horizon` rows; NaN where the target is not known then."""
        base, ahead = self.rows.base, self.horizon
        change = base[ahead:] - base[:-ahead]
        return np.where(self.rows.known[ahead:], change, np.nan).astype(np.float32)

    @property
    def longest(self) -> int:
        return self.edges("train")[1]

    def edges(self, name: PartName) -> tuple[int, int]:
        """The first row of a part, and the one after its last."""
        rows = len(self.y)
        second, third = int(SHARES[0] * rows), int((SHARES[0] + SHARES[1]) * rows)
        return {"train": (0, second), "valid": (second, third), "test": (third, rows), "all": (0, rows)}[name]

    def part(self, name: PartName, warm: int) -> StreamData:
        # A part's window is filled with the rows before it, so that every one of its own is scored.
        start, stop = self.edges(name)
        start = max(0, start - warm)
        return StreamData([self.rows.x[start:stop]], [self.y[start:stop]])

    def scored(self, name: PartName, warm: int) -> tuple[int, int]:
        """The rows of a part that are scored."""
        start, stop = self.edges(name)
        return max(start, warm), stop

    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        return _errors(output.double().numpy(), y.double().numpy(), self.reader.targets)

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        start, stop = self.scored(name, warm)
        y = self.y[start:stop].astype(np.float64)
        found = {"persistence": _errors(np.zeros_like(y), y, self.reader.targets)}
        for cycle, seconds in CYCLES.items():
            lag = self._rows_of(seconds)
            # A target of a cycle ago must be known by now, for every row that is scored.
            if self.horizon < lag <= start + self.horizon:
                then = np.arange(start, stop) + self.horizon - lag
                guess = self.rows.base[then] - self.rows.base[start:stop]
                found[cycle] = _errors(guess, y, self.reader.targets)
        return found

    def _rows_of(self, seconds: float) -> int:
        """How many rows so much time is; 0 where it is no whole number, or not the same everywhere."""
        if self.rows.time is None or self.reader.step is None:
            return 0
        lag = seconds / self.reader.step
        if lag != round(lag) or len(self.rows.time) <= lag:
            return 0
        apart = (self.rows.time[round(lag) :] - self.rows.time[: -round(lag)]) / np.timedelta64(1, "s")
        return round(lag) if (np.abs(apart - seconds) < self.reader.step / 2).all() else 0


def forecast(
    table: Table,
    targets: Sequence[str] = (),
    horizon: int = 1,
    *,
    time: str | None = None,
    time_format: str = "",
    decimal: str = "",
    columns: Sequence[str] = (),
    categorical: Sequence[str] = (),
    units: Sequence[str] = (),
    missing: Policy | None = None,
    gaps: Policy | None = None,
    reader: TableReader | None = None,
) -> Forecast:
    """Forecasts of the targets `horizon` rows ahead, from all that can be used of a table, or by a reader at hand.

    What was found out about the table, and what was left out of it, is in the `notes` of the result.

    Args:
        table: rows in order of time, as `read_table` gives them.
        targets: names of the columns that are forecast.
        horizon: how many rows ahead.
        time: name of the column of times; found out unless told, "none" where there is none.
        time_format: how times are written, as for `datetime.strptime`; found out unless told.
        decimal: what stands before the fraction of a number that is text, "." or ","; found out unless told.
        columns: what may be used; all of them unless told.
        categorical: columns of numbers that are categories.
        units: of the targets, one for each, or one for all of them.
        missing: an empty field: an error, filled with the column's last value, or a reason to leave out the row; unless
            told as the reader at hand was trained, or an error.
        gaps: rows that are missing in time: an error, filled with the last values, or passed over; unless told as for
            `missing`.
        reader: that of a trained model, by which the table is then read.
    """
    positive_int("horizon", horizon)
    notes: tuple[str, ...] = ()
    if fresh := reader is None:
        reader, notes = find_reader(
            table,
            targets,
            time,
            columns,
            categorical,
            train=SHARES[0],
            time_format=time_format,
            decimal=decimal,
        )
        reader = dataclasses.replace(reader, missing=missing or reader.missing, gaps=gaps or reader.gaps)
    rows = read_rows(reader, table, missing, gaps)
    if len(rows.x) <= horizon:
        raise ValueError(f"{table.name} has {len(rows.x)} rows, too few for targets {horizon} rows ahead")
    info = ModelInfo(
        task="forecasting",
        inputs=reader.names,
        labels=reader.targets,
        units=tuple(units),
        horizon=horizon,
        seconds=reader.step,
        reader=reader.to_dict(),
    )
    problem = Forecast(reader, rows, horizon, info, (*notes, *rows.notes))
    _refuse_unknown(problem, table.name, USES if fresh else ("all",))
    return problem


def _refuse_unknown(problem: Forecast, name: str, parts: Iterable[PartName]) -> None:
    """Say so where a target is empty in a whole part: there would be nothing to learn or to score."""
    for part in parts:
        start, stop = problem.edges(part)
        unknown = np.isnan(problem.y[start:stop]).all(0)
        if stop > start and unknown.any():
            target = problem.reader.targets[int(unknown.argmax())]
            raise ValueError(
                f"{name}: the target {target!r} is empty in all of the {USES.get(part, 'rows')}; "
                f"--missing skip leaves out rows without it"
            )


def _errors(output: NDArray[np.float64], y: NDArray[np.float64], targets: Sequence[str]) -> Scores:
    """Mean absolute and root mean squared error of every target, in the user's units."""
    found: Scores = {}
    for place, name in enumerate(targets):
        known = ~np.isnan(y[:, place])
        error = (output - y)[known, place]
        of = f" of {name}" if len(targets) > 1 else ""
        found[f"mean absolute error{of}"] = float(np.abs(error).mean()) if known.any() else float("nan")
        found[f"root mean squared error{of}"] = float(np.sqrt(np.square(error).mean())) if known.any() else float("nan")
    return found


def level(problem: Forecast, name: PartName, warm: int, output: Tensor) -> tuple[NDArray[np.float64], ...]:
    """Forecasts, truths (NaN where not known) and last known values of the scored rows: [N, targets] each."""
    start, stop = problem.scored(name, warm)
    base = problem.rows.base[start:stop]
    return base + output.double().numpy(), base + problem.y[start:stop], base
