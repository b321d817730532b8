"""Records that are plain numbers, in order or by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import MISSING, LiveReader, Policy, RecordError, Token, blank, check_policy, shown
from nystream.data.table import empty

LISTED = 5  # names of fields that an error lists


class VectorReader(LiveReader):
    """Reads `width` numbers a record, or r times as many where r tokens arrive together.

    An object needs the names, and may have others besides. Numbers may be written as text, as in CSV; None, "",
    NaN and the like are fields that are missing.

    Args:
        width: numbers of a token.
        names: of them; none where records can only be arrays.
        together: r.
        missing: what is done about a field that is missing.
    """

    def __init__(self, width: int, names: Sequence[str] = (), together: int = 1, missing: Policy = "fail") -> None:
        check_policy("missing", missing)
        self.width, self.names, self.together, self.missing = width, tuple(names), together, missing
        self.state: NDArray[np.float32] | None = None  # [r * width], of the last record
        self._shapes: list[tuple[int, ...]] = [(together * width,)]
        if together > 1:
            self._shapes.append((together, width))

    def read(self, record: Any) -> list[Token]:
        cells = self._cells(record)
        self.note, self.lost = "", 0
        filled: tuple[str, ...] = ()
        try:
            with np.errstate(over="ignore"):
                x = np.array(cells, np.float32)
        except (TypeError, ValueError, OverflowError):
            x = np.full(1, np.nan, np.float32)
        if x.shape not in self._shapes or not np.isfinite(x).all():
            x, lost = self._one_by_one(cells)
            if lost and self.missing == "skip":
                self.note, self.note_kind, self.lost = self._lacking(cells, lost), "missing", 1
                return []
            filled = self._fill(x, lost, cells)
        self.state = x.reshape(-1)
        return [Token(row, filled=filled) for row in x.reshape(self.together, self.width)]

    def memory(self) -> dict[str, Any]:
        return {"last": None if self.state is None else self.state.tolist()}

    def remember(self, memory: dict[str, Any]) -> None:
        last = memory["last"]
        if last is not None and len(last) != self.together * self.width:
            raise ValueError(f"the memory has {len(last)} numbers, but the reader takes {self._size}")
        self.state = None if last is None else np.array(last, np.float32)

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        if columns is None:
            if width != self.together * self.width:
                raise ValueError(f"records have {width} numbers, but the model takes {self._size}")
            return
        self._by_name()
        lost = [place for place, name in enumerate(self.names) if name not in columns]
        if len(lost) == self.width or (lost and self.missing != "fill"):
            raise ValueError(
                f"the columns are {names_of(columns)}, but the model takes {names_of(self.names)}: "
                f"{listed(self._named(lost))} missing"
            )

    def _cells(self, record: Any) -> Any:
        """The values in the model's order."""
        if not isinstance(record, dict):
            return record
        self._by_name()
        return [record.get(name) for name in self.names]

    def _by_name(self) -> None:
        """Refuse what has names, where that is of no use."""
        if not self.names:
            raise RecordError(f"it has names, but the model does not name its inputs; give {self._size} numbers")
        if self.together > 1:
            raise RecordError(f"it has names, but {self.together} tokens arrive together; give {self._size} numbers")

    def _one_by_one(self, cells: Any) -> tuple[NDArray[np.float32], list[int]]:
        """What is wrong with a record, if it is not that fields are missing: those are NaN, and their places listed."""
        if not isinstance(cells, list | tuple | np.ndarray):
            raise RecordError(f"{shown(cells)} must be an array of {self._size} numbers", "no array")
        rows = list(cells)
        if self.together > 1 and len(rows) == self.together:
            rows = [cell for row in rows for cell in (row if isinstance(row, list | tuple | np.ndarray) else [row])]
        if len(rows) != self.together * self.width:
            raise RecordError(f"{_amount(rows)}, but the model takes {self._size}", "amount")
        x, lost = np.empty(len(rows), np.float32), []
        for place, cell in enumerate(rows):
            x[place] = self._number(place, cell)
            if np.isnan(x[place]):
                lost.append(place)
        return x, lost

    def _number(self, place: int, cell: Any) -> float:
        if empty(cell):
            return np.nan
        try:
            with np.errstate(over="ignore"):
                value = np.float32(float(cell))
        except (TypeError, ValueError, OverflowError):
            name = self._name(place)
            raise RecordError(f"{name} is {shown(cell)}, which is not a number", f"{name} is no number") from None
        if np.isinf(value):
            name = self._name(place)
            raise RecordError(f"{name} is {shown(cell)}, which is beyond float32", f"{name} is beyond float32")
        return float(value)

    def _fill(self, x: NDArray[np.float32], lost: list[int], cells: Any) -> tuple[str, ...]:
        """Last values into the places of `x` that are missing, and the names of those."""
        if not lost:
            return ()
        if self.missing == "fail":
            raise RecordError(f"{self._lacking(cells, lost)}; {MISSING}", "missing")
        if self.state is None:
            reason = "there is no record before it to fill it from"
            raise RecordError(f"{self._lacking(cells, lost)}, and {reason}", reason)
        x[lost] = self.state[lost]
        return self._named(lost)

    def _lacking(self, cells: Any, lost: list[int]) -> str:
        """Which fields are missing, and how the first of them is written."""
        first, field = self._name(lost[0]), blank(np.asarray(cells, object).reshape(-1)[lost[0]])
        if field == "empty":
            return f"{listed(self._named(lost))} missing"
        return f"{first} is {field}" if len(lost) == 1 else f"{listed(self._named(lost))} missing ({first} is {field})"

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self._name, places))

    def _name(self, place: int) -> str:
        return self.names[place % self.width] if self.names else f"number {place + 1}"

    @property
    def _size(self) -> str:
        return f"{self.together} x {self.width}" if self.together > 1 else str(self.width)


def _amount(cells: Sequence[Any]) -> str:
    """How many numbers there are; where a field is none, how many values, and that field."""
    plural = "s" if len(cells) != 1 else ""
    for cell in cells:
        try:
            float(0 if empty(cell) else cell)
        except (TypeError, ValueError, OverflowError):
            return f"{len(cells)} value{plural}, of which {shown(cell)} is not a number"
    return f"{len(cells)} number{plural}"


def listed(names: Sequence[str]) -> str:
    """The names with their verb, of many the first ones."""
    return f"{names_of(names)} {'is' if len(names) == 1 else 'are'}"


def names_of(names: Sequence[str]) -> str:
    """For a message; of many the first ones."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(names[:LISTED])}{more}"
