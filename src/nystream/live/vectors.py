"""Records of a model that came without a reader: its input's numbers, in order or by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.config import ModelConfig, ModelInfo
from nystream.data.reader import LiveReader, Policy, RecordError, Token

SHOWN = 40  # characters of a value that an error shows
LISTED = 5  # names of fields that it lists


class VectorReader(LiveReader):
    """Reads [input_dim] numbers a record, or [r, input_dim] where r tokens arrive together.

    An object needs the names in `info.inputs`, and may have others besides. Numbers may be written as text, as in CSV;
    None, "" and NaN are fields that are missing.
    """

    def __init__(self, config: ModelConfig, info: ModelInfo, missing: Policy = "fail") -> None:
        self.together, self.width, self.inputs = config.update_size, config.input_dim, info.inputs
        self.missing = missing
        self._shapes: list[tuple[int, ...]] = [(self.together * self.width,)]
        if self.together > 1:
            self._shapes.append((self.together, self.width))
        self._last: NDArray[np.float32] | None = None  # [r * input_dim], of the last record

    def read(self, record: Any) -> list[Token]:
        cells = self._cells(record)
        filled: tuple[str, ...] = ()
        try:
            with np.errstate(over="ignore"):
                x = np.array(cells, np.float32)
        except (TypeError, ValueError, OverflowError):
            x = np.full(1, np.nan, np.float32)
        if x.shape not in self._shapes or not np.isfinite(x).all():
            x, lost = self._one_by_one(cells)
            if lost and self.missing == "skip":
                return []
            filled = self._fill(x, lost)
        self._last = x.reshape(-1)
        rows = x.reshape(self.together, self.width)
        return [Token(row.copy(), filled=filled) for row in rows]

    def memory(self) -> dict[str, Any]:
        return {"last": None if self._last is None else self._last.tolist()}

    def remember(self, memory: dict[str, Any]) -> None:
        last = memory["last"]
        self._last = None if last is None else np.array(last, np.float32)

    def _cells(self, record: Any) -> Any:
        """The values in the model's order."""
        if not isinstance(record, dict):
            return record
        if not self.inputs:
            raise RecordError(
                f"an object, but the model does not name its inputs; give an array of {self.width} numbers"
            )
        if self.together > 1:
            raise RecordError(f"an object, but {self.together} tokens arrive together; give an array of {self._size}")
        return [record.get(name) for name in self.inputs]

    def _one_by_one(self, cells: Any) -> tuple[NDArray[np.float32], list[int]]:
        """What is wrong with a record, if it is not that fields are missing: those are NaN, and their places listed."""
        if not isinstance(cells, list | tuple | np.ndarray):
            raise RecordError(f"{cells!r:.{SHOWN}} must be an array of {self._size} numbers")
        rows = list(cells)
        if self.together > 1 and len(rows) == self.together:
            rows = [cell for row in rows for cell in (row if isinstance(row, list | tuple | np.ndarray) else [row])]
        if len(rows) != self.together * self.width:
            raise RecordError(f"{len(rows)} numbers, but the model takes {self._size}")
        x, lost = np.empty(len(rows), np.float32), []
        for place, cell in enumerate(rows):
            x[place] = self._number(place, cell)
            if np.isnan(x[place]):
                lost.append(place)
        return x, lost

    def _number(self, place: int, cell: Any) -> float:
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            return np.nan
        try:
            with np.errstate(over="ignore"):
                value = np.float32(float(cell))
        except (TypeError, ValueError, OverflowError):
            raise RecordError(f"{self._name(place)} is {cell!r:.{SHOWN}}, which is no number") from None
        if np.isinf(value):
            raise RecordError(f"{self._name(place)} is {cell!r:.{SHOWN}}, which is beyond float32")
        return float(value)

    def _fill(self, x: NDArray[np.float32], lost: list[int]) -> tuple[str, ...]:
        """Last values into the places of `x` that are missing, and the names of those."""
        if not lost:
            return ()
        names = tuple(self._name(place) for place in lost)
        if self.missing == "fail":
            raise RecordError(f"{listed(names)} missing; with missing set to fill or skip, the stream goes on")
        if self._last is None:
            raise RecordError(f"{listed(names)} missing, and there is no record before it to take them from")
        x[lost] = self._last[lost]
        return names

    def _name(self, place: int) -> str:
        column = place % self.width
        return self.inputs[column] if self.inputs else f"number {place + 1}"

    @property
    def _size(self) -> str:
        return f"{self.together} x {self.width}" if self.together > 1 else str(self.width)


def listed(names: tuple[str, ...]) -> str:
    """The names with their verb, of many the first ones."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(names[:LISTED])}{more} {'is' if len(names) == 1 else 'are'}"
