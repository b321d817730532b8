"""Records that are plain numbers, in order or by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.numbers import read_number
from nystream.data.reader import (
    MISSING_HINT,
    LiveReader,
    Policy,
    RecordError,
    Token,
    check_policy,
    empty_text,
    is_empty,
    shown,
)
from nystream.data.table import counted, shortened

if TYPE_CHECKING:
    from nystream.data.vector_states import VectorStates

MAX_NAMES = 5  # that an error lists


class LiveVectors(LiveReader):
    """Reads `width` numbers per record, or r times as many if r tokens arrive together.

    A record is an array, or a dict that has the names and may have others. Numbers may be given as text, as in CSV;
    None, "", NaN and the like are missing fields.

    Args:
        width: Numbers per token.
        names: Their names; empty if records can only be arrays.
        together: The number r of tokens per record.
        missing: What to do about missing fields.

    Attributes:
        shapes: The shapes that an array may have.
    """

    state: NDArray[np.float32] | None  # [r * width], the last record

    def __init__(self, width: int, names: Sequence[str] = (), together: int = 1, missing: Policy = "fail") -> None:
        check_policy("missing", missing)
        self.width, self.names, self.together, self.missing = width, tuple(names), together, missing
        self.state = None
        self.shapes: list[tuple[int, ...]] = [(together * width,)]
        if together > 1:
            self.shapes.append((together, width))

    def read(self, record: Any) -> list[Token]:
        if isinstance(record, dict):
            self._require_names()
            record = [record.get(name) for name in self.names]
        self.note, self.lost = "", 0
        filled: tuple[str, ...] = ()
        try:
            with np.errstate(over="ignore"):
                x = np.array(record, np.float32)
        except (TypeError, ValueError, OverflowError):
            x = np.full(1, np.nan, np.float32)
        if x.shape not in self.shapes or not np.isfinite(x).all():
            fields = self._fields(record)
            x = np.array([self._number(place, field) for place, field in enumerate(fields)], np.float32)
            missing = np.flatnonzero(np.isnan(x)).tolist()
            if missing:
                problem = self._missing(fields, missing)
                if self.missing == "skip":
                    self.note, self.note_kind, self.lost = problem, "missing", 1
                    return []
                if self.missing == "fail":
                    raise RecordError(f"{problem}; {MISSING_HINT}", "missing")
                if self.state is None:
                    reason = "there is no earlier record to fill it from"
                    raise RecordError(f"{problem}, and {reason}", reason)
                x[missing] = self.state[missing]
                filled = self._names(missing)
        self.state = x.reshape(-1)
        return [Token(row, filled=filled) for row in x.reshape(self.together, self.width)]

    def memory(self) -> dict[str, Any]:
        return {"last": None if self.state is None else self.state.tolist()}

    def remember(self, memory: dict[str, Any]) -> None:
        last = memory["last"]
        if last is not None and len(last) != self.together * self.width:
            raise ValueError(f"the memory has {len(last)} numbers, but the reader takes {self._size}")
        self.state = None if last is None else np.array(last, np.float32)

    def states(self) -> VectorStates:
        from nystream.data.vector_states import VectorStates

        return VectorStates(self)

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        if columns is None:
            if width != self.together * self.width:
                raise ValueError(f"records have {width} numbers, but the model takes {self._size}")
            return
        self._require_names()
        missing = [name for name in self.names if name not in columns]
        if len(missing) == self.width or (missing and self.missing != "fill"):
            needed = f"the model takes {shortened(self.names, MAX_NAMES)}: {_are_missing(missing)}"
            raise ValueError(f"the columns are {shortened(columns, MAX_NAMES)}, but {needed}")

    def _require_names(self) -> None:
        """Raise if records cannot be given by name."""
        if not self.names:
            raise RecordError(f"it has names, but the model's inputs have none; give {self._size} numbers")
        if self.together > 1:
            raise RecordError(f"it has names, but {self.together} tokens arrive together; give {self._size} numbers")

    def _fields(self, record: Any) -> list[Any]:
        """The fields of a record, as many as needed."""
        if not isinstance(record, list | tuple | np.ndarray):
            raise RecordError(f"{shown(record)} must be an array of {self._size} numbers", "no array")
        fields = list(record)
        if self.together > 1 and len(fields) == self.together:
            fields = [
                field for row in fields for field in (row if isinstance(row, list | tuple | np.ndarray) else [row])
            ]
        if len(fields) != self.together * self.width:
            raise RecordError(f"{_count(fields)}, but the model takes {self._size}", "amount")
        return fields

    def _number(self, place: int, field: Any) -> float:
        """A field as a number; NaN if it is missing."""
        name = self._name(place)
        with np.errstate(over="ignore"):
            value = float(np.float32(read_number(field, name)))
        if np.isinf(value):
            raise RecordError(f"{name} is {shown(field)}, which is too large for float32", f"{name} is too large")
        return value

    def _missing(self, fields: Sequence[Any], places: Sequence[int]) -> str:
        """Which fields are missing, and how the first of them is written."""
        first, text = self._name(places[0]), empty_text(fields[places[0]])
        if text != "empty" and len(places) == 1:
            return f"{first} is {text}"
        return _are_missing(self._names(places)) + ("" if text == "empty" else f" ({first} is {text})")

    def _names(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self._name, places))

    def _name(self, place: int) -> str:
        return self.names[place % self.width] if self.names else f"number {place + 1}"

    @property
    def _size(self) -> str:
        return f"{self.together} x {self.width}" if self.together > 1 else str(self.width)


def _count(fields: Sequence[Any]) -> str:
    """How many numbers there are, or, if a field is not a number, how many values, and that field."""
    for field in fields:
        try:
            float(0 if is_empty(field) else field)
        except (TypeError, ValueError, OverflowError):
            return f"{counted(len(fields), 'value')}, of which {shown(field)} is not a number"
    return counted(len(fields), "number")


def _are_missing(names: Sequence[str]) -> str:
    return f"{shortened(names, MAX_NAMES)} {'is' if len(names) == 1 else 'are'} missing"
