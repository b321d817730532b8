"""The states of many streams of plain numbers, and the tokens of the usual records of many streams at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.records import Records
from nystream.data.stream_states import Slots, StreamStates, TokenBatch
from nystream.data.vectors import LiveVectors

UNREADABLE = (TypeError, ValueError, OverflowError)


class VectorStates(StreamStates):
    """States of `LiveVectors`."""

    def __init__(self, live: LiveVectors) -> None:
        self._live, self._size = live, live.together * live.width
        super().__init__([("last", np.float32, (self._size,)), ("has_last", np.bool_)])

    def load(self, slot: int) -> NDArray[np.float32] | None:
        return self.rows["last"][slot].copy() if self.rows["has_last"][slot] else None

    def store(self, slot: int, state: NDArray[np.float32] | None) -> None:
        self.rows["has_last"][slot] = state is not None
        self.rows["last"][slot] = 0 if state is None else state

    def batch(self, slots: Slots, records: Records) -> TokenBatch | None:
        """Return the tokens of records that are finite numbers in the right shape."""
        x = self._numbers(records)  # [N, r * width]
        places = np.flatnonzero(np.isfinite(x).all(1))
        if not len(places):
            return None
        return TokenBatch(places, x[places].reshape(-1, self._live.together, self._live.width))

    def advance(self, slots: Slots, batch: TokenBatch) -> None:
        self.rows["last"][slots] = batch.x.reshape(-1, self._size)
        self.rows["has_last"][slots] = True

    def _numbers(self, records: Records) -> NDArray[np.float32]:
        """The numbers of all records; NaN where the reader must look at the record."""
        rows: Any = records.rows
        if not isinstance(rows, np.ndarray):
            rows = [self._by_name(row) if isinstance(row, dict) else row for row in rows]
        try:
            x = self._converted(rows)
        except UNREADABLE:
            x = np.empty(0, np.float32)
        if x.shape[1:] in self._live.shapes and len(x) == len(records):
            return x.reshape(len(x), self._size)
        return np.stack([self._row(row) for row in rows])  # at least one of them has another form

    def _by_name(self, record: dict[str, Any]) -> list[Any]:
        named = self._live.names and self._live.together == 1
        return [record.get(name) for name in self._live.names] if named else []

    def _row(self, row: Any) -> NDArray[np.float32]:
        try:
            x = self._converted(row)
        except UNREADABLE:
            x = np.empty(0, np.float32)
        return x.reshape(-1) if x.shape in self._live.shapes else np.full(self._size, np.nan, np.float32)

    def _converted(self, numbers: Any) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            return np.array(numbers, np.float32)
