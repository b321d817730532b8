"""Rows of a table as tokens: numbers as they are, categories as zeros and ones, by how much each target has changed
since the token before, the time of day and of the week.

A model of a table forecasts by how much its targets will have changed after some rows. `Token.base` has the last known
targets: a forecast is the base plus what the model gives.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import boolean, fields_of
from nystream.data import clock, numbers
from nystream.data.calendar import DAY, WEEK, time_features
from nystream.data.reader import Policy, Reader, RecordError, check_policy, no_gaps, shown
from nystream.data.table import empty, listed
from nystream.data.timeline import Pace

if TYPE_CHECKING:
    from nystream.data.live_table import LiveTable

NAMES = {DAY: "day", WEEK: "week"}
KEPT = 4096  # places in a cycle whose waves are kept: more than the quarters of an hour of a week


@dataclass(frozen=True)
class Column:
    """One column of the table.

    Args:
        name: as the table has it.
        categories: its values, where it has categories; none where it has numbers.
        usual: what it is filled with where nothing came before: a number, or the number of a category.
    """

    name: str
    categories: tuple[str, ...] = ()
    usual: float = 0.0

    @property
    def width(self) -> int:
        return len(self.categories) or 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={one}" for one in self.categories) or (self.name,)

    @cached_property
    def places(self) -> dict[str, float]:
        """Category -> its number."""
        return {category(name): float(i) for i, name in enumerate(self.categories)}

    def value(self, field: Any, marks: str) -> float:
        """A field as a number, that of its category for categories; NaN where it is empty or of a new category."""
        if self.categories:
            return math.nan if empty(field) else self.places.get(category(field), math.nan)
        kind = type(field)
        if kind is str and marks[0] == "." and "_" not in field:  # the usual case, fast
            try:
                value = float(field)
            except ValueError:
                value = math.inf
        else:
            value = field if kind is float else math.inf
        return value if -math.inf < value < math.inf or value != value else self._number(field, marks)

    def _number(self, field: Any, marks: str) -> float:
        if empty(field):
            return math.nan
        try:
            value = numbers.value(field, marks) if isinstance(field, str) else float(field)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(field, "not a number") from None
        if math.isinf(value):
            raise self._refusal(field, "not finite")
        return value

    def _refusal(self, field: Any, what: str) -> RecordError:
        return RecordError(
            f"column {self.name!r} is {shown(field)}, which is {what}", f"column {self.name!r} is {what}"
        )


@dataclass(frozen=True)
class TableReader(Reader):
    """How rows of a table become tokens.

    Args:
        columns: what a token is made of.
        targets: columns that are forecast, all of them numbers.
        time: the column that says when a row was measured; None where there is none.
        form: how times are written.
        step: seconds between two rows.
        periods: hours of the cycles that a token knows its place in.
        decimal: the marks of numbers that are text, as in `nystream.data.numbers`.
        months: between two rows that go by the calendar, as in `Pace`; `step` is then their length on average.
        day: of the month that they fall on.
        zoned: whether times name a zone, and are then those of UTC; None where it is not known.
        centred: whether numbers are taken less what is usual, in float64: float32 does not hold the last digits of
            large ones.
        missing: what was done in training about a field that is empty.
        gaps: what was done in training about rows that are missing.
    """

    kind: ClassVar[str] = "table"

    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    time: str | None = None
    form: str = clock.ISO
    step: float | None = None
    periods: tuple[float, ...] = (DAY, WEEK)
    decimal: str = "."
    months: int = 0
    day: int = 0
    zoned: bool | None = None
    centred: bool = False
    missing: Policy = "fail"
    gaps: Policy = "fail"

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for target in self.targets:
            if target not in names or self.columns[names.index(target)].categories:
                raise ValueError(f"target {target!r} must be one of the columns of numbers: {listed(names)}")
        if self.time is not None and not (self.step is not None and self.step > 0):
            raise ValueError(f"step={self.step!r} must be seconds, greater than 0, where there is a time column")
        if self.zoned is not None:
            boolean("zoned", self.zoned)
        boolean("centred", self.centred)
        check_policy("missing", self.missing)
        check_policy("gaps", self.gaps)

    @cached_property
    def names(self) -> tuple[str, ...]:
        waves = [f"{wave} of {NAMES.get(p, f'{p:g} hours')}" for p in self._periods for wave in ("sine", "cosine")]
        changes = (f"change of {target}" for target in self.targets)
        return (*(name for column in self.columns for name in column.names), *changes, *waves)

    @property
    def _periods(self) -> tuple[float, ...]:
        return self.periods if self.time is not None else ()

    @cached_property
    def pace(self) -> Pace:
        """How far apart rows lie."""
        assert self.step is not None
        return Pace(np.timedelta64(round(self.step * 1e6), "us"), self.months, self.day)

    @cached_property
    def usual(self) -> NDArray[np.float64]:
        """[columns]."""
        return np.array([column.usual for column in self.columns])

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """[columns]: what numbers are taken less."""
        known = [column.usual if self.centred and not column.categories else 0.0 for column in self.columns]
        return np.array(known)

    @cached_property
    def target_places(self) -> list[int]:
        names = [column.name for column in self.columns]
        return [names.index(target) for target in self.targets]

    def encode(
        self, values: NDArray[np.float64], before: NDArray[np.float64], time: NDArray[Any] | None
    ) -> NDArray[np.float32]:
        """[N, input_dim] of values [N, columns] that are all known, those of the token before each, and times [N]."""
        parts: list[NDArray[Any]] = []
        for place, column in enumerate(self.columns):
            of_column = values[:, place, None]
            parts.append(of_column == np.arange(column.width) if column.categories else of_column - self.centres[place])
        # Attention through a few landmarks sees what there was, but hardly which token was the last.
        parts.append((values - before)[:, self.target_places])
        if time is not None and self._periods:
            parts.append(time_features(time, self._periods))
        with np.errstate(over="ignore"):
            return np.concatenate([part.astype(np.float32) for part in parts], 1)

    def waves(self, time: int) -> tuple[float, ...]:
        """What `time_features` makes of one time, in microseconds."""
        seconds = time // 1_000_000
        return _waves(tuple([2 * np.pi * (seconds % length) / length for length in self._lengths]))

    @cached_property
    def _lengths(self) -> list[float]:
        """Seconds of the periods."""
        return [period * 3600 for period in self._periods]

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveTable:
        from nystream.data.live_table import LiveTable

        if self.time is None:
            no_gaps(gaps)
        return LiveTable(self, missing or self.missing, gaps or self.gaps)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TableReader:
        given = fields_of(cls, {name: value for name, value in fields.items() if name != "kind"}, "reader")
        columns = []
        for place, one in enumerate(given.pop("columns", ())):
            column = fields_of(Column, one, f"reader.columns[{place}]")
            columns.append(Column(**column | {"categories": tuple(column.get("categories", ()))}))
        for name in ("targets", "periods"):
            if name in given:
                given[name] = tuple(given[name])
        try:
            return cls(columns=tuple(columns), **given)
        except TypeError as error:
            raise ValueError(f"reader cannot be used: {error}") from error


@lru_cache(KEPT)
def _waves(angles: tuple[float, ...]) -> tuple[float, ...]:
    """Sine and cosine of every angle: by numpy, as `time_features` has them, to the bit."""
    return tuple(np.stack([np.sin(angles), np.cos(angles)], 1).ravel().tolist())


def category(field: Any) -> str:
    """The name of a category, whether it came as text, as a number or as a truth."""
    if isinstance(field, float) and field.is_integer():
        field = int(field)
    text = str(field).strip()
    low = text.lower()
    return low if low in ("true", "false") else text


READER = TableReader
