"""Which rows of a table are for training, validation and testing: shares of them, times, or other tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import HELD_OUT, SHARES, HeldOut, PartName
from nystream.data.table import Table, counted
from nystream.data.table_rows import TableRows
from nystream.data.timestamps.column import find_time
from nystream.data.timestamps.parse import ISO, parse_time
from nystream.data.timestamps.zone import shifted_to_utc

DATA: dict[PartName, str] = {"train": "training data", "valid": "validation data", "test": "test data"}
NEEDED = "it must be two times, such as 2023-01-01,2023-07-01, or three shares, such as 0.7,0.15,0.15"

Shares = tuple[float, float, float]


@dataclass(frozen=True)
class Times:
    """When validation and test data begin."""

    given: tuple[str, str]
    valid: np.datetime64
    test: np.datetime64
    before: float  # share of the rows of the table before the validation data


class RowSplit(NamedTuple):
    """Where the parts are. Rows are those of all tables, one after another, the source first.

    Attributes:
        tables: The first row of each table.
        parts: The first row of each part, and the one after its last. A row counts where it is forecast from.
        names: What each part is, for messages.
        note: What was done.
    """

    tables: tuple[int, ...]
    parts: dict[PartName, tuple[int, int]]
    names: dict[PartName, str]
    note: str

    def origin(self, row: int) -> int:
        """The first row of the table that has a row."""
        return max(first for first in self.tables if first <= row)


def given_shares(split: Sequence[str], held_out: Mapping[HeldOut, object]) -> Shares | None:
    """The shares that a split gives, or the usual ones; None if it gives times."""
    if not split:
        valid, test = (0.0 if name in held_out else share for name, share in zip(HELD_OUT, SHARES[1:], strict=True))
        return (1.0 - valid - test, valid, test) if held_out else SHARES
    text = ",".join(split)
    if held_out:
        names = " and ".join(f"--{name}" for name in held_out)
        raise ValueError(f"split={text!r} does not go with {names}: give either")
    if len(split) not in (2, 3):
        raise ValueError(f"split={text!r} has {counted(len(split), 'value')}, but {NEEDED}")
    if len(split) == 2:
        return None
    try:
        train, valid, test = map(float, split)
    except ValueError:
        raise ValueError(f"split={text!r} has something that is not a number, but {NEEDED}") from None
    if not min(train, valid, test) > 0 or abs(train + valid + test - 1) > 1e-6:
        raise ValueError(f"split={text!r}: shares must be greater than 0, and their sum 1")
    return train, valid, test


def given_times(
    split: Sequence[str], table: Table, time: str | Sequence[str] | None, time_format: str, timezone: str = ""
) -> Times:
    """The times that a split gives; they are local times of a time zone, if one is given."""
    text = ",".join(split)
    column, _ = find_time(table, time, time_format, timezone)
    if column is None:
        raise ValueError(f"split={text!r} needs times, but {table.name} has no time column; give three shares instead")
    zoned = table.zoned(column.name, column.time_format, column.clock)
    (valid, with_zone), (test, _) = (_parsed(value, text, column.time_format, zoned) for value in split)
    if not valid < test:
        raise ValueError(f"split={text!r}: the test data must begin after the validation data")
    times = table.times(column.name, column.time_format, column.clock)
    moments = [value if with_zone else _moment(value, timezone) for value in (valid, test)]
    # Half a row more, so that rounding does not matter.
    before = (int((times < (moments[0] if zoned else valid)).sum()) + 0.5) / len(times)
    return Times((split[0], split[1]), moments[0], moments[1], min(before, 1.0))


def _moment(time: np.datetime64, timezone: str) -> np.datetime64:
    """The moment in UTC of a local time; without a time zone, the time itself."""
    return np.datetime64(shifted_to_utc(int(time.astype(np.int64)), timezone), "us") if timezone else time


def _parsed(value: str, text: str, time_format: str, zoned: bool) -> tuple[np.datetime64, bool]:
    """A time in ISO 8601 or in the format of the table, and whether it has a time zone, and is then in UTC."""
    for form in (ISO, time_format):
        try:
            microseconds, has_zone = parse_time(value, form)
        except (ValueError, OverflowError):
            continue
        if has_zone and not zoned:
            raise ValueError(f"split={text!r}: {value!r} has a time zone, but the times of the table have none")
        return np.datetime64(microseconds, "us"), has_zone
    raise ValueError(f"split={text!r}: {value!r} is not a time such as 2023-01-01 or 2023-01-01T12:00; {NEEDED}")


def by_shares(rows: TableRows, horizon: int, shares: Shares) -> RowSplit:
    """The split of one table by shares of its rows; a part without a share is given as another table."""
    count = len(rows.x) - horizon
    second, third = int(shares[0] * count), int((shares[0] + shares[1]) * count)
    second, third = second if shares[1] else third, third if shares[2] else count
    names: dict[PartName, str] = {
        "train": f"first {shares[0]:.0%} of the rows, the {DATA['train']}",
        "valid": f"next {shares[1]:.0%} of the rows, the {DATA['valid']}",
        "test": f"last {shares[2]:.0%} of the rows, the {DATA['test']}",
    }
    split = RowSplit((0,), {"train": (0, second), "valid": (second, third), "test": (third, count)}, names, "")
    return split._replace(note=_sizes(split))


def by_times(rows: TableRows, horizon: int, times: Times, name: str) -> RowSplit:
    """The split of one table by times.

    A row belongs to the part of the row that is forecast from it, so nothing after the first time is learned.
    """
    assert rows.time is not None
    count = len(rows.x) - horizon
    second, third = (int(np.searchsorted(rows.time, time)) - horizon for time in (times.valid, times.test))
    if not 0 < second < third < count:
        first, last = (str(rows.time[place].astype("datetime64[s]")) for place in (0, -1))
        raise ValueError(
            f"split={','.join(times.given)!r} leaves a part without rows: {name} has {counted(len(rows.x), 'row')}, "
            f"from {first} to {last}"
        )
    split = RowSplit((0,), {"train": (0, second), "valid": (second, third), "test": (third, count)}, DATA, "")
    begin = f"validation begins at {times.given[0]}, testing at {times.given[1]}"
    return split._replace(note=f"{_sizes(split)}; {begin}")


def with_tables(
    split: RowSplit, rows: TableRows, horizon: int, others: Mapping[HeldOut, tuple[str, TableRows]]
) -> tuple[RowSplit, TableRows]:
    """The split and the rows with those of other tables, which are the validation or test data."""
    tables, parts, names = list(split.tables), dict(split.parts), dict(split.names)
    all_rows = [rows]
    notes = list(rows.notes)
    for part, (name, other) in others.items():
        count = len(other.x) - horizon
        if count < 1:
            raise ValueError(
                f"{part}={name} has {counted(len(other.x), 'row')}, too few for targets {counted(horizon, 'row')} ahead"
            )
        first = sum(len(each.x) for each in all_rows)
        tables.append(first)
        parts[part], names[part] = (first, first + count), f"rows of {name}, the {DATA[part]}"
        all_rows.append(other)
        notes += [f"{name}: {note}" for note in other.notes]
        if shared := _shared(rows, other):
            notes.append(f"{counted(shared, 'row')} of {name} are also in the source, so scores on them may flatter")
    time = None if rows.time is None else np.concatenate([each.time for each in all_rows if each.time is not None])
    together = TableRows(
        np.concatenate([each.x for each in all_rows]),
        time,
        np.concatenate([each.base for each in all_rows]),
        np.concatenate([each.known for each in all_rows]),
        tuple(notes),
    )
    new = split._replace(tables=tuple(tables), parts=parts, names=names)
    return new._replace(note=_sizes(new, {part: name for part, (name, _) in others.items()})), together


def _shared(rows: TableRows, other: TableRows) -> int:
    """The number of rows that two tables have in common: the same time and targets."""
    if rows.time is None or other.time is None:
        return 0
    _, ours, theirs = np.intersect1d(rows.time, other.time, return_indices=True)
    return int((rows.base[ours] == other.base[theirs]).all(1).sum())


def _sizes(split: RowSplit, others: Mapping[HeldOut, str] = MappingProxyType({})) -> str:
    """How many rows each part has, and the names of tables that are parts of their own."""
    sizes = {part: counted(stop - start, "row") for part, (start, stop) in split.parts.items()}
    where = {part: f" ({name})" for part, name in others.items()}
    return (
        f"{sizes['train']} for training, {sizes['valid']} for validation{where.get('valid', '')}, {sizes['test']} for "
        f"testing{where.get('test', '')}"
    )


def per_table(split: RowSplit, values: NDArray[Any]) -> list[NDArray[Any]]:
    """The rows of each table."""
    return np.split(values, split.tables[1:])
