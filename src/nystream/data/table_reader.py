"""Rows of a table as tokens: numbers as they are, categories as zeros and ones, by how much each target has changed
since the token before, the time of day and of the week.

A model of a table forecasts by how much its targets will have changed after some rows. `Token.base` has the last known
targets: a forecast is the base plus what the model gives.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import fields_of
from nystream.data import clock
from nystream.data.reader import LiveReader, Policy, Reader, RecordError, Token, check_policy
from nystream.data.table import empty, listed
from nystream.tasks.electricity.features import DAY, WEEK, time_features

NAMES = {DAY: "day", WEEK: "week"}
LONGEST = 10_000  # rows of a gap that is filled: a clock that jumps must not fill the memory
GAPS = (
    "gaps=fill would fill them with the last values, gaps=skip pass over them; rows that come early are left out then"
)
MISSING = "missing=fill would take the last value, missing=skip leave the row out"


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

    def value(self, field: Any, decimal: str) -> float:
        """A field as a number, that of its category for categories; NaN where it is empty or of a new category."""
        if empty(field):
            return math.nan
        if self.categories:
            text = category(field)
            return float(self.categories.index(text)) if text in self.categories else math.nan
        return _number(self.name, field, decimal)


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
        decimal: what stands before the fraction of a number, "." or ",".
    """

    kind: ClassVar[str] = "table"

    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    time: str | None = None
    form: str = clock.ISO
    step: float | None = None
    periods: tuple[float, ...] = (DAY, WEEK)
    decimal: str = "."

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for target in self.targets:
            if target not in names or self.columns[names.index(target)].categories:
                raise ValueError(f"target {target!r} must be one of the columns of numbers: {listed(names)}")
        if self.time is not None and not (self.step is not None and self.step > 0):
            raise ValueError(f"step={self.step!r} must be seconds, greater than 0, where there is a time column")

    @cached_property
    def names(self) -> tuple[str, ...]:
        waves = [f"{wave} of {NAMES.get(p, f'{p:g} hours')}" for p in self._periods for wave in ("sine", "cosine")]
        changes = (f"change of {target}" for target in self.targets)
        return (*(name for column in self.columns for name in column.names), *changes, *waves)

    @property
    def _periods(self) -> tuple[float, ...]:
        return self.periods if self.time is not None else ()

    @cached_property
    def delta(self) -> np.timedelta64:
        """The step."""
        assert self.step is not None
        return np.timedelta64(round(self.step * 1e6), "us")

    @cached_property
    def usual(self) -> NDArray[np.float64]:
        """[columns]."""
        return np.array([column.usual for column in self.columns])

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
            parts.append(of_column == np.arange(column.width) if column.categories else of_column)
        # Attention through a few landmarks sees what there was, but hardly which token was the last.
        parts.append((values - before)[:, self.target_places])
        if time is not None and self._periods:
            parts.append(time_features(time, self._periods))
        return np.concatenate([part.astype(np.float32) for part in parts], 1)

    def live(self, missing: Policy = "fail", gaps: Policy = "fail") -> LiveTable:
        return LiveTable(self, missing, gaps)

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


class LiveTable(LiveReader):
    """Reads rows as they come: a record is a dict of column to text, number or None."""

    def __init__(self, reader: TableReader, missing: Policy, gaps: Policy) -> None:
        check_policy("missing", missing)
        check_policy("gaps", gaps)
        self.reader, self.missing, self.gaps = reader, missing, gaps
        self.last = np.full(len(reader.columns), np.nan)  # the last known values
        self.before: NDArray[np.float64] | None = None  # [columns] of the last token
        self.time: np.datetime64 | None = None  # of the last row, used or not

    def read(self, record: Any) -> list[Token]:
        if not isinstance(record, dict):
            raise RecordError(f"a record is a {type(record).__name__}, but must have a value for every column")
        reader, lacking = self.reader, list[str]()
        time = self._time(record, lacking)
        values = np.array([column.value(record.get(column.name), reader.decimal) for column in reader.columns])
        lacking += [column.name for column, value in zip(reader.columns, values, strict=True) if math.isnan(value)]
        steps = self._steps(time)
        if lacking and steps and self.missing == "fail":
            raise RecordError(f"{self._reason(record, lacking[0])}{also(lacking)}; {MISSING}")
        tokens = self._between(time, steps) if self.gaps == "fill" else []
        if steps and time is not None:
            self.time = time
        if steps and not (lacking and self.missing == "skip"):
            known = ~np.isnan(values)
            self.last = np.where(known, values, self.last)
            tokens.append(self._token(self._held(), time, tuple(lacking), False))
        return tokens

    def memory(self) -> dict[str, Any]:
        values = [None if math.isnan(value) else value for value in self.last.tolist()]
        before = None if self.before is None else self.before.tolist()
        return {"time": None if self.time is None else str(self.time), "values": values, "before": before}

    def remember(self, memory: dict[str, Any]) -> None:
        values, before = memory["values"], memory["before"]
        for held in (values, before):
            if held is not None and len(held) != len(self.last):
                raise ValueError(f"the memory has {len(held)} values, but the reader has {len(self.last)} columns")
        self.last = np.array([math.nan if value is None else value for value in values], np.float64)
        self.before = None if before is None else np.array(before, np.float64)
        self.time = None if memory["time"] is None else np.datetime64(memory["time"], "us")

    def _time(self, record: dict[str, Any], lacking: list[str]) -> np.datetime64 | None:
        """When the record was measured; a step after the last one where it does not say."""
        name = self.reader.time
        if name is None:
            return None
        if empty(record.get(name)):
            lacking.append(name)
            if self.missing == "fill" and self.time is None:
                raise RecordError(f"the first record has no {name!r}, and there is none before it to count from")
            return None if self.time is None else self.time + self.reader.delta
        try:
            return clock.parse(record[name], self.reader.form)
        except (ValueError, OverflowError) as error:
            raise RecordError(f"{name!r} is {record[name]!r}, which is not a time: {error}") from error

    def _steps(self, time: np.datetime64 | None) -> int:
        """How many rows after the last one; 0 where it must be passed over."""
        if time is None or self.time is None:
            return 1
        found = clock.place(self.time, time, self.reader.delta)
        wrong = misplaced(self.time, time, self.reader.delta, found, self.gaps)
        if wrong:
            raise RecordError(f"{wrong}; {GAPS}")
        return found.steps

    def _between(self, time: np.datetime64 | None, steps: int) -> list[Token]:
        """The rows that are missing before this one, as the last one was."""
        if time is None or self.time is None or steps < 2:
            return []
        held, every = self._held(), tuple(column.name for column in self.reader.columns)
        return [self._token(held, later(self.time, time, i, steps), every, True) for i in range(1, steps)]

    def _held(self) -> NDArray[np.float64]:
        """[columns]: the last known values, usual ones where there are none."""
        return np.where(np.isnan(self.last), self.reader.usual, self.last)

    def _reason(self, record: dict[str, Any], name: str) -> str:
        field = record.get(name)
        if not empty(field):
            return f"column {name!r} has {field!r}, a category that training has not met"
        return f"column {name!r} is empty" if name in record else f"column {name!r} is missing"

    def _token(self, values: NDArray[Any], time: np.datetime64 | None, filled: tuple[str, ...], gap: bool) -> Token:
        stamps = None if time is None else np.array([time])
        before = values if self.before is None else self.before
        x = self.reader.encode(values[None], before[None], stamps)[0]
        self.before = values
        return Token(x, time, filled, gap, values[self.reader.target_places].astype(np.float32))


def category(field: Any) -> str:
    """The name of a category, whether it came as text or as a number."""
    if isinstance(field, float) and field.is_integer():
        field = int(field)
    return str(field).strip()


def misplaced(last: np.datetime64, now: np.datetime64, step: np.timedelta64, found: clock.Place, gaps: Policy) -> str:
    """What is wrong with the time of a row, where it cannot be mended."""
    then, this = (str(time.astype("datetime64[s]")).replace("T", " ") for time in (last, now))
    count = found.steps - 1
    lacking = f"{count} {'row is' if count == 1 else 'rows are'} missing between {then} and {this}"
    if gaps == "fill" and count > LONGEST:
        return f"{lacking}, and no more than {LONGEST} in a row are filled"
    if gaps != "fail" or found == (1, True):
        return ""
    if found.steps == 0:
        return f"{this} comes after {then}, not a step of {clock.spelled(step)} later"
    return lacking if found.regular else f"{this} comes after {then}, no whole number of steps of {clock.spelled(step)}"


def also(names: Sequence[str]) -> str:
    return "" if len(names) < 2 else f", and so {'is' if len(names) == 2 else 'are'} {len(names) - 1} more"


def later(before: np.datetime64, after: np.datetime64, i: int, steps: int) -> np.datetime64:
    """The time of the i-th of the rows that lie evenly between two."""
    return before + (after - before) * i // steps


def _number(name: str, field: Any, decimal: str) -> float:
    try:
        if isinstance(field, str):
            text = field.strip()
            if "_" in text or (decimal == "," and "." in text):
                raise ValueError("digits only")
            value = float(text.replace(decimal, "."))
        else:
            value = float(field)
    except (TypeError, ValueError):
        raise RecordError(f"column {name!r} has {field!r}, which is not a number") from None
    if math.isinf(value):
        raise RecordError(f"column {name!r} has {field!r}, which is not finite")
    return value


READER = TableReader
