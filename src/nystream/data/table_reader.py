"""How rows of a table become tokens: numbers, categories as zeros and ones, what each target was some rows ago, and
the time of day and of the week.

A model of a table forecasts the change of its targets after some rows. `Token.base` has the last known targets: a
forecast is the base plus the output of the model.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import boolean, fields_of, positive_int, whole
from nystream.data.calendar import DAY, WEEK, sines, time_features
from nystream.data.columns import Column, Values
from nystream.data.reader import Policy, Reader, check_policy, reject_gaps
from nystream.data.running import Running, advance, in_units, no_rows, over_rows
from nystream.data.table import listed
from nystream.data.timestamps.clock import join_time
from nystream.data.timestamps.parse import ISO
from nystream.data.timestamps.spacing import Spacing
from nystream.data.timestamps.zone import find_zone, local_times, to_local, to_utc

if TYPE_CHECKING:
    from nystream.data.live_table import LiveTable

PERIOD_NAMES = {DAY: "day", WEEK: "week"}


@dataclass(frozen=True)
class TableReader(Reader):
    """How rows of a table become tokens.

    Args:
        columns: The columns that tokens are made of.
        targets: The columns that are forecast; they must be numbers.
        time: The time column, or that of the date if there is a `clock`; None if there is none.
        form: The format of times.
        step: Seconds between two rows.
        periods: Hours of the cycles whose phase is part of a token.
        decimal: The marks of numbers given as text, as in `nystream.data.numbers`.
        months: Months between two rows that follow the calendar, as in `Spacing`; `step` is then the average.
        day: The day of the month that such rows fall on.
        zoned: Whether times have a time zone, and are then in UTC; None if unknown.
        centred: Whether the usual value is subtracted from numbers, in float64: float32 would lose the last digits of
            large numbers.
        missing: How empty fields were handled in training.
        gaps: How missing rows were handled in training.
        lags: Numbers of rows: a token has the difference of each target to its value that many rows ago, or 0 if there
            was no such row yet. Without any, it has the change of each target since the previous row.
        ahead: Number of rows after a row at which the phases of `periods` are taken: the horizon of the forecast.
        clock: The column with the time of day, if it is separate from the date.
        timezone: The time zone of times without one, and of the calendar. Times are then in UTC.
        known: Columns whose value is known in advance, as of a calendar or a weather forecast. A token has their value
            `known_rows` rows later: in a table that of the row there, in a live record the field "NAME ahead".
        known_rows: The number of rows: the horizon of the forecast.
        series: The column that names the series of a row; None for a single one. With it, numbers and changes of
            targets are scaled by the running statistics of their own series (`nystream.data.running`).
        static: Columns of numbers that are the same in all rows of a series, and are not scaled so.
        series_rows: The limit of the running statistics, in rows.
    """

    kind: ClassVar[str] = "table"

    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    time: str | None = None
    form: str = ISO
    step: float | None = None
    periods: tuple[float, ...] = (DAY, WEEK)
    decimal: str = "."
    months: int = 0
    day: int = 0
    zoned: bool | None = None
    centred: bool = False
    missing: Policy = "fail"
    gaps: Policy = "fail"
    lags: tuple[int, ...] = ()
    ahead: int = 0
    clock: str | None = None
    timezone: str = ""
    known: tuple[str, ...] = ()
    known_rows: int = 0
    series: str | None = None
    static: tuple[str, ...] = ()
    series_rows: int = 0

    def __post_init__(self) -> None:
        for lag in self.lags:
            positive_int("lags", lag)
        whole("ahead", self.ahead)
        for target in self.targets:
            if target not in self.column_names or self.columns[self.column_names.index(target)].categories:
                raise ValueError(
                    f"target {target!r} must be one of the columns of numbers: {listed(self.column_names)}"
                )
        if self.time is not None and not (self.step is not None and self.step > 0):
            raise ValueError(f"step={self.step!r} must be a number of seconds above 0 if there is a time column")
        whole("known_rows", self.known_rows)
        for name in self.known:
            positive_int("known_rows", self.known_rows)
            if name in self.targets:
                raise ValueError(f"target {name!r} is forecast, so it cannot be known in advance")
        if self.series is not None:
            positive_int("series_rows", self.series_rows)
            if self.series in self.column_names:
                raise ValueError(f"series={self.series!r} names the series of a row, so it cannot be an input, too")
        if self.clock is not None and self.time is None:
            raise ValueError(f"clock={self.clock!r} is a time of day without a date: time must name its column")
        if self.timezone:
            find_zone(self.timezone)
            if self.time is None:
                raise ValueError(f"timezone={self.timezone!r} needs a time column")
        if self.zoned is not None:
            boolean("zoned", self.zoned)
        boolean("centred", self.centred)
        check_policy("missing", self.missing)
        check_policy("gaps", self.gaps)

    @cached_property
    def names(self) -> tuple[str, ...]:
        past: Iterable[str] = (f"change of {target}" for target in self.targets)
        if self.lags:
            past = (f"{target}, {lag} row{'s' * (lag > 1)} ago" for target in self.targets for lag in self.lags)
        periods = [PERIOD_NAMES.get(period, f"{period:g} hours") for period in self._periods]
        waves = (f"{wave} of {period}" for period in periods for wave in ("sine", "cosine"))
        return (*(name for column in self.live_form.columns for name in column.names), *past, *waves)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def known_places(self) -> list[int]:
        """Which columns are known in advance."""
        return [place for place, name in enumerate(self.column_names) if name in self.known]

    def has_ahead(self, columns: Collection[str]) -> bool:
        """Whether a table with these columns has what is known in advance as live records do."""
        return set(map(ahead_name, self.known)) <= set(columns)

    @cached_property
    def live_form(self) -> TableReader:
        """The reader of live records: what is known in advance is a field of its own in them."""
        if not self.known_places:
            return self
        columns = list(self.columns)
        for place in self.known_places:
            columns[place] = replace(columns[place], name=ahead_name(columns[place].name))
        static = tuple(ahead_name(name) if name in self.known else name for name in self.static)
        return replace(self, columns=tuple(columns), static=static)

    @cached_property
    def target_places(self) -> list[int]:
        return [self.column_names.index(target) for target in self.targets]

    @cached_property
    def scaled_places(self) -> list[int]:
        """Which columns are scaled by the statistics of their series."""
        if self.series is None:
            return []
        numbers = [place for place, column in enumerate(self.columns) if not column.categories]
        return [place for place in numbers if self.columns[place].name not in self.static]

    @cached_property
    def scaled_targets(self) -> list[int]:
        """Which of the scaled columns are the targets."""
        return [self.scaled_places.index(place) for place in self.target_places]

    @property
    def no_rows(self) -> Running | None:
        """The statistics of a series before its first row; None if rows are not scaled."""
        return None if self.series is None else no_rows(len(self.scaled_places))

    def advance(self, running: Running, values: NDArray[np.float64]) -> Running:
        """Return the statistics after another row of a series, or one of each of several, values [..., columns]."""
        return advance(running, values[..., self.scaled_places], self.series_rows)

    def statistics(self, values: NDArray[np.float64], starts: Sequence[int] = (0,)) -> Running | None:
        """Return the statistics after every row [N, columns] of streams that begin at `starts`."""
        if self.series is None:
            return None
        return over_rows(values[:, self.scaled_places], starts, self.series_rows)

    def scale(self, running: Running | None) -> NDArray[np.float64] | None:
        """Return the unit of changes of the targets [..., targets]; None for the user's."""
        return None if running is None else running.std[..., self.scaled_targets]

    @cached_property
    def time_columns(self) -> tuple[str, ...]:
        """The columns with the time: none, one, or those of the date and the time of day."""
        return tuple(name for name in (self.time, self.clock) if name is not None)

    def time_field(self, record: Mapping[str, Any]) -> Any:
        """Return the time of a record as it is written; date and time of day are joined, None if one is empty."""
        fields = [record.get(name) for name in self.time_columns]
        return fields[0] if len(fields) == 1 else join_time(*fields)

    def moment(self, time: int, last: int | None) -> int:
        """Return when a row was measured, given its time as written and when the last row was; in microseconds.

        These differ if times are local: the result is in UTC. ValueError if there is no such local time.
        """
        if not self.timezone or self.zoned:
            return time
        return to_utc(time, self.timezone, None if last is None else self.spacing.after(last, 1))

    @property
    def _periods(self) -> tuple[float, ...]:
        return self.periods if self.time is not None else ()

    @cached_property
    def spacing(self) -> Spacing:
        """The time between rows."""
        assert self.step is not None
        return Spacing(np.timedelta64(round(self.step * 1e6), "us"), self.months, self.day, self.timezone)

    @cached_property
    def usual(self) -> Values:
        """What fills missing fields before a column has a value."""
        return tuple(column.usual for column in self.columns)

    @cached_property
    def _centres(self) -> Values:
        """What is subtracted from numbers."""
        return tuple(column.usual if self.centred and not column.categories else 0.0 for column in self.columns)

    @cached_property
    def history(self) -> int:
        """The number of rows before a row that its token depends on."""
        return max(self.lags, default=1)

    def encode(
        self, values: NDArray[np.float64], time: NDArray[Any] | None, running: Running | None = None
    ) -> NDArray[np.float32]:
        """Return tokens [N, input_dim] of complete rows [N, columns] of one stream; others as in `encode_many`."""
        now = values[:, self.target_places]
        rows = np.pad(now, ((self.history, 0), (0, 0)), constant_values=np.nan)  # row i is that of `history` rows ago
        past = np.stack([rows[self.history - lag :][: len(now)] for lag in self.lags or (1,)], 1)
        return self.encode_many(values, past, time, running)

    def encode_many(
        self,
        values: NDArray[np.float64],
        past: NDArray[np.float64],
        time: NDArray[Any] | None,
        running: Running | None = None,
    ) -> NDArray[np.float32]:
        """Return tokens [N, input_dim] of complete rows, of one stream or of many.

        Args:
            values: [N, columns], the values of the rows.
            past: [N, lags, targets], the targets so many rows before each of them, or one row before if there are no
                lags; NaN where there were none.
            time: [N] datetime64; None if rows have no time.
            running: [N], the statistics of the series after each row; None if rows are not scaled.
        """
        parts: list[NDArray[Any]] = []
        now = values[:, self.target_places]
        with np.errstate(over="ignore", invalid="ignore"):  # values beyond float32 become Inf
            units = self._in_units(values, running)  # [N, scaled columns]
            for place, column in enumerate(self.columns):
                column_values = values[:, place, None]
                if column.categories:
                    parts.append(column_values == np.arange(column.width))
                elif running is not None and place in self.scaled_places:
                    parts.append(units[:, self.scaled_places.index(place), None])
                else:
                    parts.append(column_values - self._centres[place])
            # Attention through a few landmarks mixes the tokens of the window, and hardly sees which of them is the
            # newest.
            differences = past - now[:, None] if self.lags else now[:, None] - past
            if (scale := self.scale(running)) is not None:
                differences = in_units(differences, scale[:, None])
            parts.append(np.nan_to_num(differences).swapaxes(1, 2).reshape(len(now), now.shape[1] * past.shape[1]))
            if time is not None and self._periods:
                parts.append(time_features(self._phase_times(time), self._periods))
            return np.concatenate([part.astype(np.float32) for part in parts], 1)

    def _in_units(self, values: NDArray[np.float64], running: Running | None) -> NDArray[np.float64]:
        """The values [..., columns] of the scaled columns, around the mean of their series."""
        if running is None:
            return values[..., :0]
        return in_units(values[..., self.scaled_places] - running.mean, running.std)

    def encode_row(
        self, values: Values, past: NDArray[np.float64], time: int, running: Running | None = None
    ) -> NDArray[np.float32]:
        """Return the token [input_dim] of one row, bitwise as `encode` does, but much faster.

        Args:
            values: The values of the row.
            past: [history, targets], the targets of the rows before it, NaN where there were none.
            time: In microseconds.
            running: The statistics of the series after the row; None if rows are not scaled.
        """
        row: list[float] = []
        centred = [value - centre for value, centre in zip(values, self._centres, strict=True)]
        if running is not None:
            for place, value in zip(self.scaled_places, self._in_units(np.array(values), running), strict=True):
                centred[place] = float(value)
        for value, number, one_hot in zip(values, centred, self._one_hot, strict=True):
            if one_hot is None:
                row.append(number)
            else:
                row += one_hot[int(value)]
        now = [values[place] for place in self.target_places]
        if self.lags or running is not None:
            differences = past[self.past_rows] - np.array(now) if self.lags else np.array(now) - past[-1:]
            if (scale := self.scale(running)) is not None:
                differences = in_units(differences, scale)
            row += np.nan_to_num(differences.T).ravel().tolist()
        else:
            row += [0.0 if before != before else value - before for value, before in zip(now, past[-1], strict=True)]
        seconds = self._phase_time(time) // 1_000_000
        row += sines(tuple([2 * np.pi * (seconds % length) / length for length in self._lengths]))
        return np.frombuffer(array("f", row), np.float32)  # values beyond float32 become Inf, without a warning

    @cached_property
    def past_rows(self) -> NDArray[np.int64]:
        """Where the rows of the lags are in the past, whose last row is that of one row ago."""
        return self.history - np.array(self.lags or (1,))

    def _phase_time(self, time: int) -> int:
        """The time of the row that is forecast, by the clock, given that of a row."""
        if not self.timezone:
            return time + self._ahead
        if self.spacing.by_days:
            return to_local(time, self.timezone) + self._ahead
        return to_local(time + self._ahead, self.timezone)

    def _phase_times(self, times: NDArray[Any]) -> NDArray[Any]:
        """The same for times [N]."""
        ahead = np.timedelta64(self._ahead, "us")
        if not self.timezone:
            return times + ahead
        if self.spacing.by_days:
            return local_times(times, self.timezone) + ahead
        return local_times(times + ahead, self.timezone)

    @cached_property
    def _ahead(self) -> int:
        """The time from a row to the one that is forecast, in microseconds."""
        return round(self.ahead * (self.step or 0.0) * 1e6)

    @cached_property
    def _one_hot(self) -> list[list[list[float]] | None]:
        return [np.eye(column.width).tolist() if column.categories else None for column in self.columns]

    @cached_property
    def _lengths(self) -> list[float]:
        """The periods in seconds."""
        return [period * 3600 for period in self._periods]

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveTable:
        from nystream.data.live_table import LiveTable

        return LiveTable(self.live_form, *self.policies(missing, gaps))

    def policies(self, missing: Policy | None, gaps: Policy | None) -> tuple[Policy, Policy]:
        """Return the checked policies for missing fields and gaps, by default those of training."""
        if self.time is None:
            reject_gaps(gaps)
        missing, gaps = missing or self.missing, gaps or self.gaps
        check_policy("missing", missing)
        check_policy("gaps", gaps)
        return missing, gaps

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        if self.series is None:  # as before there were series, so that what was saved then still fits
            for name in ("series", "static", "series_rows"):
                del fields[name]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        given = fields_of(cls, {name: value for name, value in fields.items() if name != "kind"}, "reader")
        columns = []
        for place, column in enumerate(given.pop("columns", ())):
            column = fields_of(Column, column, f"reader.columns[{place}]")
            columns.append(Column(**column | {"categories": tuple(column.get("categories", ()))}))
        given |= {
            name: tuple(given[name]) for name in ("targets", "periods", "lags", "known", "static") if name in given
        }
        try:
            return cls(columns=tuple(columns), **given)
        except TypeError as error:
            raise ValueError(f"reader cannot be used: {error}") from error


def ahead_name(name: str) -> str:
    """Return the field of a live record with the value of a column at the time that is forecast."""
    return f"{name} ahead"
