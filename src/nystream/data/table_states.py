"""The states of many streams of rows of a table, and the tokens of the usual rows of many streams at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.columns import Column
from nystream.data.live_table import NONE, LiveTable, TableState
from nystream.data.reader import RecordError
from nystream.data.records import Fields, Records
from nystream.data.row_stream import RowState
from nystream.data.running import Running
from nystream.data.stream_states import Slots, StreamStates, TokenBatch
from nystream.data.timestamps.spacing import JITTER
from nystream.data.timestamps.timeline import Span

MAX_TIME = 1 << 62  # differences of larger times could overflow
NUMBERS = {float, int, np.float64, np.float32, np.int64, np.int32}


class TableStates(StreamStates):
    """States of `LiveTable`.

    The targets of the last rows are a ring, so that a new row overwrites the oldest one and nothing is moved.
    """

    def __init__(self, live: LiveTable) -> None:
        self._live, self._reader = live, live.reader
        columns, (history, targets) = len(live.reader.columns), live.state.past.shape
        fields: list[Any] = [
            ("span", np.int64, (3,)),  # first, last, pending
            ("values", np.float64, (columns,)),
            ("pending", np.float64, (columns,)),
            ("has_pending", np.bool_),
            ("past", np.float64, (history, targets)),
            ("oldest", np.int64),  # row of the ring
        ]
        self._scaled = live.reader.series is not None
        if self._scaled:
            scaled = len(live.reader.scaled_places)
            fields += [("seen", np.int64), ("mean", np.float64, (scaled,)), ("variance", np.float64, (scaled,))]
        super().__init__(fields)
        self._history = history

    def load(self, slot: int) -> TableState:
        row = self.rows[slot]
        span = Span(*(None if time == NONE else time for time in row["span"].tolist()))
        pending = tuple(row["pending"].tolist()) if row["has_pending"] else None
        ring, oldest = row["past"], int(row["oldest"])
        past = np.concatenate([ring[oldest:], ring[:oldest]])
        running = self._running(np.array(slot))
        return TableState(RowState(span, tuple(row["values"].tolist()), pending), past, running)

    def store(self, slot: int, state: TableState) -> None:
        (span, values, pending), past, running = state
        row = self.rows[slot]
        row["span"] = [NONE if time is None else time for time in span]
        row["values"] = values
        row["has_pending"] = pending is not None
        row["pending"] = math.nan if pending is None else pending
        row["past"], row["oldest"] = past, 0
        if running is not None:
            row["seen"], row["mean"], row["variance"] = running

    def _running(self, slots: Slots) -> Running | None:
        """The statistics of the series in these slots, of any shape."""
        if not self._scaled:
            return None
        seen, mean, variance = (np.array(self.rows[name][slots]) for name in ("seen", "mean", "variance"))
        return Running(seen, mean, variance)

    def _advanced(self, slots: Slots, values: NDArray[np.float64]) -> Running | None:
        """Their statistics after one more row of each."""
        running = self._running(slots)
        return None if running is None else self._reader.advance(running, values)

    def batch(self, slots: Slots, records: Records) -> TokenBatch | None:
        """Return the tokens of complete rows that are the first of their stream, or follow its last one."""
        columns = [self._values(column, records.column(column.name)) for column in self._reader.columns]
        values = np.column_stack(columns)
        now, usual = self._follow(slots, records)
        places = np.flatnonzero(usual & np.isfinite(values).all(1))
        if not len(places):
            return None
        slots, values = slots[places], values[places]
        time = None if self._reader.time is None else now[places].view("datetime64[us]")
        oldest = self.rows["oldest"][slots, None]
        past = self.rows["past"][slots[:, None], (oldest + self._reader.past_rows) % self._history]
        running = self._advanced(slots, values)
        x = self._reader.encode_many(values, past, time, running)
        base, scale = values[:, self._reader.target_places], self._reader.scale(running)
        return TokenBatch(places, x[:, None], time, base, values, scale)

    def advance(self, slots: Slots, batch: TokenBatch) -> None:
        rows = self.rows
        rows["values"][slots] = batch.values
        if batch.values is not None and (running := self._advanced(slots, batch.values)) is not None:
            rows["seen"][slots], rows["mean"][slots], rows["variance"][slots] = running
        if batch.time is not None:
            now, first = batch.time.view(np.int64), rows["span"][slots, 0]
            rows["span"][slots, 0] = np.where(first == NONE, now, first)
            rows["span"][slots, 1] = now
        oldest = rows["oldest"][slots]
        rows["past"][slots, oldest] = batch.base
        rows["oldest"][slots] = (oldest + 1) % self._history

    def _values(self, column: Column, fields: Fields) -> NDArray[np.float64]:
        """The values of a column [N]; NaN or Inf where the reader must look at the record."""
        if not column.categories:
            if isinstance(fields, np.ndarray) and fields.dtype.kind in "iuf":
                return fields.astype(np.float64)
            if NUMBERS.issuperset(map(type, fields)):
                try:
                    return np.array(fields, np.float64)
                except OverflowError:  # an integer of hundreds of digits
                    pass
        if isinstance(fields, np.ndarray):
            fields = fields.tolist()
        return np.array([self._value(column, field) for field in fields])

    def _value(self, column: Column, field: Any) -> float:
        try:
            return column.value(field, self._reader.decimal)
        except RecordError:
            return math.nan

    def _follow(self, slots: Slots, records: Records) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The times of records [N], and whether `judge` accepts them alone and without a remark, for all policies."""
        if self._reader.time is None:
            return np.zeros(len(slots), np.int64), np.ones(len(slots), bool)
        now = self._live.plain_times(records)
        first, last, pending = self.rows["span"][slots].T
        starts = (first == NONE) | (last == NONE)
        known = (now > -MAX_TIME) & (now < MAX_TIME) & (pending == NONE)
        steps = np.where(known & ~starts, now - last, 0) / self._reader.spacing.microseconds
        return now, known & (starts | (np.abs(steps - 1) <= JITTER))
