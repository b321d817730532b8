"""Which rows of a table are for training, validation and testing: shares of them, times, or other tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import HELD_OUT, SHARES, HeldOut, PartName
from nystream.data.table import Table, counted
from nystream.data.table_rows import TableRows
from nystream.data.timestamps.column import TimeColumn, find_time
from nystream.data.timestamps.parse import ISO, parse_time
from nystream.data.timestamps.zone import shifted_to_utc

DATA: dict[PartName, str] = {"train": "training data", "valid": "validation data", "test": "test data"}
NEEDED = "it must be two times, such as 2023-01-01,2023-07-01, or three shares, such as 0.7,0.15,0.15"

Shares = tuple[float, float, float]
Ranges = tuple[tuple[int, int], ...]  # the first row of each, and the one after its last


@dataclass(frozen=True)
class Times:
    """When validation and test data begin."""

    given: tuple[str, str]
    valid: np.datetime64
    test: np.datetime64
    before: float  # share of the rows of the table before the validation data
    column: TimeColumn
    cut: np.datetime64  # `valid`, as times are written in the table

    def rows_before(self, table: Table) -> int:
        """The number of rows of another table before the validation data."""
        return int((table.times(self.column.name, self.column.time_format, self.column.clock) < self.cut).sum())


class RowSplit(NamedTuple):
    """Where the parts are. Rows are those of all tables, one after another, the source first.

    Attributes:
        tables: The first row of each table, or of each series.
        parts: The rows of each part, in as many ranges as tables have some. A row counts where it is forecast from.
        names: What each part is, for messages.
        note: What was done.
        series: The name of the series of each table; empty if there is a single one.
    """

    tables: tuple[int, ...]
    parts: dict[PartName, Ranges]
    names: dict[PartName, str]
    note: str
    series: tuple[str, ...] = ()

    def origin(self, row: int) -> int:
        """The first row of the table that has a row."""
        return self.tables[bisect_right(self.tables, row) - 1]

    def table_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the tables that have these rows."""
        return np.searchsorted(self.tables, rows, side="right") - 1


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
    cut = moments[0] if zoned else valid
    # Half a row more, so that rounding does not matter.
    before = (int((times < cut).sum()) + 0.5) / len(times)
    return Times((split[0], split[1]), moments[0], moments[1], min(before, 1.0), column, cut)


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


def by_shares(
    rows: TableRows, horizon: int, shares: Shares, starts: tuple[int, ...] = (0,), series: tuple[str, ...] = ()
) -> RowSplit:
    """The split of a table, or of every series, by shares of its rows; a part without a share is given otherwise.

    A series that is too short to be split is training data.
    """
    parts: dict[PartName, list[tuple[int, int]]] = {"train": [], "valid": [], "test": []}
    for start, length in _lengths(rows, starts):
        count = length - horizon
        second, third = int(shares[0] * count), int((shares[0] + shares[1]) * count)
        second, third = second if shares[1] else third, third if shares[2] else count
        if series and not (second > 0 and (second < third or not shares[1]) and (third < count or not shares[2])):
            second = third = max(count, 0)
        for part, (first, stop) in zip(parts, ((0, second), (second, third), (third, count)), strict=True):
            if stop > first or not series:
                parts[part].append((start + first, start + stop))
    of = " of each series" if series else ""
    names: dict[PartName, str] = {
        "train": f"first {shares[0]:.0%} of the rows{of}, the {DATA['train']}",
        "valid": f"next {shares[1]:.0%} of the rows{of}, the {DATA['valid']}",
        "test": f"last {shares[2]:.0%} of the rows{of}, the {DATA['test']}",
    }
    split = RowSplit(starts, {part: tuple(ranges) for part, ranges in parts.items()}, names, "", series)
    return split._replace(note=_sizes(split))


def _lengths(rows: TableRows, starts: Sequence[int]) -> list[tuple[int, int]]:
    """The first row of each table, and its number of rows."""
    return list(zip(starts, np.diff([*starts, len(rows.x)]).tolist(), strict=True))


def by_times(
    rows: TableRows,
    horizon: int,
    times: Times,
    name: str,
    starts: tuple[int, ...] = (0,),
    series: tuple[str, ...] = (),
) -> RowSplit:
    """The split of a table, or of every series, by times.

    A row belongs to the part of the row that is forecast from it, so nothing after the first time is learned.
    """
    assert rows.time is not None
    parts: dict[PartName, list[tuple[int, int]]] = {"train": [], "valid": [], "test": []}
    for start, length in _lengths(rows, starts):
        of_table, count = rows.time[start : start + length], max(length - horizon, 0)
        cuts = [int(np.searchsorted(of_table, time)) - horizon for time in (times.valid, times.test)]
        second, third = (min(max(cut, 0), count) for cut in cuts)
        for part, (first, stop) in zip(parts, ((0, second), (second, third), (third, count)), strict=True):
            if stop > first:
                parts[part].append((start + first, start + stop))
    if not all(parts.values()):
        oldest, newest = (str(time.astype("datetime64[s]")) for time in (rows.time.min(), rows.time.max()))
        raise ValueError(
            f"split={','.join(times.given)!r} leaves a part without rows: {name} has {counted(len(rows.x), 'row')}, "
            f"from {oldest} to {newest}"
        )
    split = RowSplit(starts, {part: tuple(ranges) for part, ranges in parts.items()}, DATA, "", series)
    begin = f"validation begins at {times.given[0]}, testing at {times.given[1]}"
    return split._replace(note=f"{_sizes(split)}; {begin}")


class Other(NamedTuple):
    """Another table, or several series, to validate or test on."""

    name: str
    rows: TableRows
    starts: tuple[int, ...] = (0,)
    series: tuple[str, ...] = ()


def with_tables(
    split: RowSplit, rows: TableRows, horizon: int, others: Mapping[HeldOut, Other]
) -> tuple[RowSplit, TableRows]:
    """The split and the rows with those of other tables, which are the validation or test data."""
    tables, parts, names, series = list(split.tables), dict(split.parts), dict(split.names), list(split.series)
    all_rows = [rows]
    notes = list(rows.notes)
    for part, other in others.items():
        first = sum(len(each.x) for each in all_rows)
        ranges = tuple(
            (first + start, first + start + length - horizon)
            for start, length in _lengths(other.rows, other.starts)
            if length > horizon
        )
        if not ranges:
            raise ValueError(
                f"{part}={other.name} has {counted(len(other.rows.x), 'row')}, too few for targets "
                f"{counted(horizon, 'row')} ahead"
            )
        tables += [first + start for start in other.starts]
        series += other.series
        parts[part], names[part] = ranges, f"rows of {other.name}, the {DATA[part]}"
        all_rows.append(other.rows)
        notes += [f"{other.name}: {note}" for note in other.rows.notes]
        if shared := _shared_rows(split, rows, other):
            notes.append(
                f"{counted(shared, 'row')} of {other.name} are also in the source, so scores on them may flatter"
            )
    time, scale = (
        None if getattr(rows, name) is None else np.concatenate([getattr(each, name) for each in all_rows])
        for name in ("time", "scale")
    )
    together = TableRows(
        np.concatenate([each.x for each in all_rows]),
        time,
        np.concatenate([each.base for each in all_rows]),
        np.concatenate([each.known for each in all_rows]),
        tuple(notes),
        scale,
    )
    new = split._replace(tables=tuple(tables), parts=parts, names=names, series=tuple(series))
    return new._replace(note=_sizes(new, {part: other.name for part, other in others.items()})), together


def _shared_rows(split: RowSplit, rows: TableRows, other: Other) -> int:
    """The number of rows that another table has in common with the source, or its series with those of their name."""
    if not split.series:
        return _shared(rows, other.rows)
    ours = {name: _part(rows, *bounds) for name, bounds in zip(split.series, _lengths(rows, split.tables), strict=True)}
    theirs = zip(other.series, _lengths(other.rows, other.starts), strict=True)
    return sum(_shared(ours[name], _part(other.rows, *bounds)) for name, bounds in theirs if name in ours)


def _part(rows: TableRows, start: int, length: int) -> TableRows:
    """The times and targets of some rows."""
    part = slice(start, start + length)
    return rows._replace(time=None if rows.time is None else rows.time[part], base=rows.base[part])


def _shared(rows: TableRows, other: TableRows) -> int:
    """The number of rows that two tables have in common: the same time and targets."""
    if rows.time is None or other.time is None:
        return 0
    _, ours, theirs = np.intersect1d(rows.time, other.time, return_indices=True)
    return int((rows.base[ours] == other.base[theirs]).all(1).sum())


def _sizes(split: RowSplit, others: Mapping[HeldOut, str] = MappingProxyType({})) -> str:
    """How many rows each part has, and the names of tables that are parts of their own."""
    sizes = {part: counted(sum(stop - start for start, stop in ranges), "row") for part, ranges in split.parts.items()}
    where = {part: f" ({name})" for part, name in others.items()}
    return (
        f"{sizes['train']} for training, {sizes['valid']} for validation{where.get('valid', '')}, {sizes['test']} for "
        f"testing{where.get('test', '')}"
    )


def per_table(split: RowSplit, values: NDArray[Any]) -> list[NDArray[Any]]:
    """The rows of each table."""
    return np.split(values, split.tables[1:])


def numbers_in(ranges: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """The numbers of the rows of several ranges, one after another; those that end before they begin have none."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in ranges)])
