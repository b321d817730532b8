"""The records of one call: a list of them, or columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Fields = list[Any] | NDArray[Any]  # of one column
PANDAS_MISSING = ("NaTType", "NAType")


class RecordRows:
    """Records in a list, or the rows of an array."""

    def __init__(self, rows: Sequence[Any] | NDArray[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, places: Sequence[int]) -> RecordRows:
        """Return some of the records."""
        if isinstance(self.rows, np.ndarray):
            return RecordRows(self.rows[list(places)])
        return RecordRows([self.rows[place] for place in places])

    def column(self, name: str) -> Fields:
        """Return a field of every record; None where there is none."""
        if self._are_dicts:
            try:
                return list(map(itemgetter(name), self.rows))
            except KeyError:
                pass
        return [row.get(name) if isinstance(row, dict) else None for row in self.rows]

    @cached_property
    def _are_dicts(self) -> bool:
        """Whether all are plain dicts: subclasses may invent the fields that they lack."""
        return not isinstance(self.rows, np.ndarray) and set(map(type, self.rows)) <= {dict}


class RecordColumns:
    """Records whose fields are in columns of equal length."""

    def __init__(self, columns: Mapping[str, Fields]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The records as dicts of Python's own types, as `take` would get them."""
        names = tuple(self._columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*map(_fields, self._columns.values()), strict=True)]

    def chosen(self, places: Sequence[int]) -> RecordRows:
        """Return some of the records."""
        return RecordRows([self.rows[place] for place in places])

    def column(self, name: str) -> Fields:
        """Return a field of every record; None if there is no such column."""
        return self._columns.get(name, [None] * len(self))


Records = RecordRows | RecordColumns


def as_records(records: Any) -> Records:
    """Return what `take_many` was given as records.

    Args:
        records: A sequence of records, an array with one of them in each row, a dict of columns, or a DataFrame of
            polars or pandas.
    """
    if isinstance(records, Mapping):
        return RecordColumns(_checked({name: _column(name, column) for name, column in records.items()}))
    if hasattr(records, "columns") and hasattr(records, "__getitem__"):
        return RecordColumns({name: _of_frame(records[name]) for name in records.columns})
    if isinstance(records, np.ndarray) and records.ndim:
        return RecordRows(list(records) if records.dtype.kind == "O" else records)
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        return RecordRows(records)
    raise TypeError(
        f"records is a {type(records).__name__}, but must be a list of records, an array, a dict of columns or a "
        f"DataFrame"
    )


def rounds(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the places of the first record of each key, then those of the second of each, …"""
    if len(set(keys)) == len(keys):
        return [list(range(len(keys)))] if keys else []
    rounds, counts = list[list[int]](), dict[Hashable, int]()
    for place, key in enumerate(keys):
        count = counts[key] = counts.get(key, 0) + 1
        if count > len(rounds):
            rounds.append([])
        rounds[count - 1].append(place)
    return rounds


def _column(name: str, column: Any) -> Fields:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return column
    if hasattr(column, "to_list"):  # a Series of polars or pandas
        return _of_frame(column)
    if isinstance(column, str | bytes) or not isinstance(column, Sequence):
        raise TypeError(
            f"records has a {type(column).__name__} for {name!r}, but a dict must have a column for each name: a list, "
            f"an array [N] or a Series; for one record use take, or a list of one"
        )
    return list(column)


def _checked(columns: dict[str, Fields]) -> dict[str, Fields]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        first, *others = lengths
        other = next(name for name in others if lengths[name] != lengths[first])
        raise ValueError(
            f"records has {lengths[first]} fields of {first!r}, but {lengths[other]} of {other!r}; columns must be of "
            f"the same length"
        )
    return columns


def _of_frame(column: Any) -> Fields:
    """A column that is a Series; a list unless it has numbers, because polars drops the zone of times in arrays."""
    array = np.asarray(column)
    return array if array.dtype.kind in "iuf" else column.to_list()


def _fields(column: Fields) -> list[Any]:
    """The fields of a column, as Python's own types; times that are missing are None."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "M":  # Python's own type has no nanoseconds
            return [None if np.isnat(time) else time for time in column]
        return column.tolist()
    return [None if _is_missing(field) else field for field in column]


def _is_missing(field: Any) -> bool:
    """Whether a field is missing in the way of pandas or numpy."""
    return type(field).__name__ in PANDAS_MISSING or (isinstance(field, np.datetime64) and bool(np.isnat(field)))
