"""Reading the rows of a table one at a time. `nystream.data.table_rows` reads a whole table, to the same tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.columns import Values
from nystream.data.reader import MISSING_HINT, LiveReader, Policy, RecordError, Token, empty_text, is_empty, shown
from nystream.data.records import Records
from nystream.data.row_stream import Row, RowState, initial_state, place_row, take_row
from nystream.data.running import Running
from nystream.data.table import counted, joined_names, listed
from nystream.data.table_reader import TableReader, ahead_name
from nystream.data.timestamps.parse import parse_time
from nystream.data.timestamps.timeline import GAPS_HINT, Span, Verdict
from nystream.data.timestamps.zone import to_local

if TYPE_CHECKING:
    from nystream.data.table_states import TableStates

NONE = np.iinfo(np.int64).min  # stands for a time that is None, in arrays
ZONED = {True: "times must have a time zone, such as Z or +02:00", False: "times must not have a time zone"}


class TableState(NamedTuple):
    """What is remembered between records."""

    row: RowState
    past: NDArray[np.float64]  # [history, targets]: the targets of the last rows, NaN where there were none
    running: Running | None = None  # the statistics of a series; None if rows are not scaled


class LiveTable(LiveReader):
    """Reads one row at a time: a record is a dict from column to text, number or None."""

    state: TableState
    missing: Policy
    gaps: Policy

    def __init__(self, reader: TableReader, missing: Policy, gaps: Policy) -> None:
        self.reader, self.missing, self.gaps, self.zoned = reader, missing, gaps, bool(reader.zoned)
        self.timezone = reader.timezone
        past = np.full((reader.history, len(reader.targets)), np.nan)
        self.state = TableState(initial_state(reader), past, reader.no_rows)

    def read(self, record: Any) -> list[Token]:
        if not isinstance(record, dict):
            raise RecordError(f"a record is a {type(record).__name__}, but must be a dict with the columns' values")
        reader, (before, past, running) = self.reader, self.state
        time, missing = self._time(record)
        if time is not None and reader.timezone:
            self._require_local(record, time)
        values = tuple([column.value(record.get(column.name), reader.decimal) for column in reader.columns])
        if any(map(math.isnan, values)):
            missing += tuple(name for name, value in zip(reader.column_names, values, strict=True) if value != value)
        verdict = place_row(reader, self.gaps, before, time)
        if verdict.error:
            raise RecordError(f"{verdict.error}; {GAPS_HINT}", "gap")
        early = time is not None and not (verdict.rows or verdict.held_back)
        if missing and self.missing == "fail" and not early:
            reason, kind = self._missing_reason(record, missing)
            raise RecordError(f"{reason}; {MISSING_HINT}", kind)
        usable = None if missing and self.missing == "skip" else values
        rows, _, after = take_row(reader, before, verdict, usable)
        tokens = list[Token]()
        for row in rows:
            running = None if running is None else reader.advance(running, np.array(row.values))
            tokens.append(self._token(row, past, missing, running))
            past = np.concatenate([past[1:], tokens[-1].base[None]])  # type: ignore[index]
        self.state = TableState(after, past, running)
        self._set_note(verdict, before, record, missing, bool(rows))
        return tokens

    def memory(self) -> dict[str, Any]:
        row, past, running = self.state
        memory = {
            "span": list(row.span),
            "values": _to_json(row.values),
            "past": [_to_json(values) for values in past.tolist()],
            "doubted": _to_json(row.pending),
        }
        return memory if running is None else memory | {"running": [part.tolist() for part in running]}

    def remember(self, memory: dict[str, Any]) -> None:
        values, pending = (self._from_json(memory[name]) for name in ("values", "doubted"))
        if values is None:
            raise ValueError("the memory has no values")
        span = [None if time is None else int(time) for time in memory["span"]]
        self.state = TableState(RowState(Span(*span), values, pending), self._past(memory), self._running(memory))

    def states(self) -> TableStates:
        from nystream.data.table_states import TableStates

        return TableStates(self)

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        reader = self.reader
        needed = [*reader.time_columns, *reader.column_names]
        if columns is None:
            raise ValueError(f"records are {width} numbers without names, but the model needs {listed(needed)}")
        missing, ahead = [name for name in needed if name not in columns], {ahead_name(k): k for k in reader.known}
        if len(missing) == len(needed):
            raise ValueError(
                f"none of {listed(columns)} is a column of the model; it needs {listed(needed)}; "
                f"if lines come before the header, `skip_lines` skips them"
            )
        if self.missing == "fill":
            missing = [name for name in missing if name in (*reader.time_columns, *reader.targets, *ahead)]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            hint, later = "", counted(reader.known_rows, "row")
            if field := next((name for name in missing if name in ahead), ""):
                hint = f"; {field!r} must be the value of {ahead[field]!r} at the time that is forecast, {later} later"
            raise ValueError(f"{listed(missing)} {verb} missing from the columns, {listed(columns)}{hint}")

    def ahead(self, time: np.datetime64, rows: int) -> np.datetime64 | None:
        # If gaps are ignored, the time of the next row is unknown.
        if self.gaps == "skip":
            return None
        return np.datetime64(self.reader.spacing.after(int(time.view(np.int64)), rows), "us")

    def plain_times(self, records: Records) -> NDArray[np.int64]:
        """Return the times [N] that records themselves have, in microseconds; NONE where `read` must look at them."""
        reader = self.reader
        if reader.timezone:  # the moment of a local time depends on the last one of its stream
            return np.full(len(records.rows), NONE)
        column = () if reader.time is None else records.column(reader.time)
        if isinstance(column, np.ndarray) and column.dtype.kind == "M" and not (reader.zoned or reader.clock):
            return column.astype("datetime64[us]").view(np.int64)  # NaT is NONE
        return np.array([self._plain_time(record) for record in records.rows], np.int64)

    def _plain_time(self, record: Any) -> int:
        try:
            time, missing = self._time(record) if isinstance(record, dict) else (None, ())
        except RecordError:
            return NONE
        return NONE if missing or time is None else time

    def _time(self, record: dict[str, Any]) -> tuple[int | None, tuple[str, ...]]:
        """The time of a record, one step after the last if it has none, and the empty column's name in that case."""
        reader, last = self.reader, self.state.row.span.last
        if reader.time is None:
            return None, ()
        field = reader.time_field(record)
        if is_empty(field):
            empty = next(name for name in reader.time_columns if is_empty(record.get(name)))
            if self.missing == "fill" and last is None:
                raise RecordError(f"the first record has no {empty!r}, and no earlier one to count from")
            return None if last is None else reader.spacing.after(last, 1), (empty,)
        try:
            time, zoned = parse_time(field, reader.form)
            if reader.zoned is None or zoned is reader.zoned:
                return reader.moment(time, last), ()
        except (ValueError, OverflowError) as error:
            name = joined_names(reader.time, reader.clock)
            raise RecordError(f"{name} is {shown(field)}, which is not a time: {error}", "no time") from error
        name, needed = joined_names(reader.time, reader.clock), f"{ZONED[reader.zoned]}, as in training"
        raise RecordError(f"{name} is {shown(field)}, but {needed}", needed)

    def _require_local(self, record: dict[str, Any], time: int) -> None:
        """Raise RecordError unless the time, and those that are forecast from it, can be written as local times."""
        reader = self.reader
        try:
            for rows in (0, max(1, reader.ahead)):
                to_local(reader.spacing.after(time, rows), reader.timezone)
        except OverflowError as error:
            name, years = joined_names(reader.time, reader.clock), f"the years {MINYEAR} to {MAXYEAR}"
            problem = f"it is not within {years} in {reader.timezone}, or what is forecast from it is not"
            field = shown(reader.time_field(record))
            raise RecordError(f"{name} is {field}, which cannot be used: {problem}", "no time") from error

    def _past(self, memory: dict[str, Any]) -> NDArray[np.float64]:
        """The targets of the last rows; version 0.1 remembered only those of the last one, in `before`."""
        shape = self.state.past.shape
        if "past" in memory:
            past = np.array([_from_null(values) for values in memory["past"]]).reshape(len(memory["past"]), -1)
        else:
            before = self._from_json(memory["before"])
            past = np.array([[math.nan if before is None else before[place] for place in self.reader.target_places]])
        if past.shape != shape:
            raise ValueError(f"the memory has past rows {list(past.shape)}, but the reader needs {list(shape)}")
        return past

    def _running(self, memory: dict[str, Any]) -> Running | None:
        """The statistics of a series."""
        fresh = self.reader.no_rows
        if fresh is None:
            return None
        seen, mean, variance = memory["running"]
        running = Running(np.array(seen, np.int64), np.array(mean, np.float64), np.array(variance, np.float64))
        if [part.shape for part in running] != [part.shape for part in fresh]:
            raise ValueError(f"the memory has statistics of {len(mean)} columns, but the reader has {len(fresh.mean)}")
        return running

    def _token(self, row: Row, past: NDArray[np.float64], missing: tuple[str, ...], running: Running | None) -> Token:
        reader = self.reader
        if row.kind != "row":
            missing = tuple(name for name, value in zip(reader.column_names, row.given, strict=True) if value != value)
        base = np.array([row.values[place] for place in reader.target_places])
        time = None if reader.time is None else np.datetime64(row.time, "us")
        x = reader.encode_row(row.values, past, row.time, running)
        return Token(x, time, missing, row.kind == "gap", base, reader.scale(running))

    def _set_note(
        self, verdict: Verdict, before: RowState, record: dict[str, Any], missing: Sequence[str], accepted: bool
    ) -> None:
        """Say what happened to a record, and count the records that were dropped."""
        self.note, self.note_kind, self.lost = verdict.note, verdict.note_kind, 0
        if not (accepted or verdict.held_back):
            self.lost = 1
            if not self.note:
                self.note, self.note_kind = self._drop_reason(record, missing)
        if verdict.unconfirmed and not self.note:
            self.note = self.note_kind = "the row before it is dropped: no other row confirms its time"
        self.lost += verdict.unconfirmed or (verdict.note_kind == "jump" and before.pending is None)

    def _drop_reason(self, record: dict[str, Any], missing: Sequence[str]) -> tuple[str, str]:
        """Why a record whose time is right was dropped, and the kind of the reason."""
        if missing and self.missing == "skip":
            return self._missing_reason(record, missing)
        places = zip(self.reader.targets, self.reader.target_places, strict=True)
        unknown = [name for name, place in places if math.isnan(self.state.row.values[place])]
        return f"no value of {listed(unknown)} is known yet, so there is nothing to forecast from", "no base"

    def _missing_reason(self, record: dict[str, Any], missing: Sequence[str]) -> tuple[str, str]:
        """Why fields of a record count as missing, and the kind of the reason."""
        name = missing[0]
        field = record.get(name)
        if is_empty(field):
            reason = kind = f"column {name!r} is {empty_text(field) if name in record else 'missing'}"
        else:
            reason = f"column {name!r} has {shown(field)}, a category that is not in the training data"
            kind = f"column {name!r} has a new category"
        others = len(missing) - 1
        return reason + (f", and {others} more {'is' if others == 1 else 'are'} missing" if others else ""), kind

    def _from_json(self, values: list[float | None] | None) -> Values | None:
        if values is None:
            return None
        if len(values) != len(self.reader.columns):
            raise ValueError(
                f"the memory has {len(values)} values, but the reader has {len(self.reader.columns)} columns"
            )
        return _from_null(values)


def _from_null(values: Sequence[float | None]) -> Values:
    return tuple(math.nan if value is None else float(value) for value in values)


def _to_json(values: Sequence[float] | None) -> list[float | None] | None:
    """Values for JSON, which has no NaN."""
    return None if values is None else [None if value != value else value for value in values]
