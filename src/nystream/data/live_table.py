"""Rows of a table as they come. `nystream.data.table_rows` reads all of a table at once, to the same tokens."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data import clock
from nystream.data.reader import MISSING, LiveReader, Policy, RecordError, Token, blank, check_policy, shown
from nystream.data.table import empty, listed
from nystream.data.table_reader import TableReader
from nystream.data.timeline import HINT, Span, Verdict, judge

ZONES = ("name a zone, such as Z or +02:00", "name no zone")

Values = tuple[float, ...]  # one for each column; NaN where a field is empty


class Held(NamedTuple):
    """What is remembered."""

    span: Span
    values: Values  # the last known ones
    before: Values | None = None  # those of the last token
    doubted: Values | None = None  # of a row that waits for the next one


class LiveTable(LiveReader):
    """Reads rows as they come: a record is a dict of column to text, number or None."""

    state: Held

    def __init__(self, reader: TableReader, missing: Policy, gaps: Policy) -> None:
        check_policy("missing", missing)
        check_policy("gaps", gaps)
        self.reader, self.missing, self.gaps, self.zoned = reader, missing, gaps, bool(reader.zoned)
        self.state = Held(Span(), (math.nan,) * len(reader.columns))
        self._names = tuple(column.name for column in reader.columns)
        self._usual, self._centres = tuple(reader.usual.tolist()), reader.centres.tolist()
        self._hot = [np.eye(column.width).tolist() if column.categories else None for column in reader.columns]

    def read(self, record: Any) -> list[Token]:
        if not isinstance(record, dict):
            raise RecordError(f"a record is a {type(record).__name__}, but must have a value for every column")
        time, untimed = self._time(record)
        marks = self.reader.decimal
        values = tuple([column.value(record.get(column.name), marks) for column in self.reader.columns])
        lacking = untimed
        if any(map(math.isnan, values)):
            lacking = (*untimed, *(name for name, value in zip(self._names, values, strict=True) if value != value))
        verdict = self._verdict(time)
        if verdict.wrong:
            raise RecordError(f"{verdict.wrong}; {HINT}", "gap")
        early = time is not None and not (verdict.tokens or verdict.doubted)
        if lacking and self.missing == "fail" and not early:
            reason, kind = self._reason(record, lacking[0])
            raise RecordError(f"{reason}{also(lacking)}; {MISSING}", kind)
        usable = None if lacking and self.missing == "skip" else values
        before, tokens = self.state, self._tokens(verdict, usable, lacking)
        if verdict.doubted:
            self.state = self.state._replace(doubted=usable)
        self._say(verdict, before, record, lacking, bool(tokens))
        return tokens

    def memory(self) -> dict[str, Any]:
        held = self.state
        return {
            "span": list(held.span),
            "values": _plain(held.values),
            "before": _plain(held.before),
            "doubted": _plain(held.doubted),
        }

    def remember(self, memory: dict[str, Any]) -> None:
        found = [memory[name] for name in ("values", "before", "doubted")]
        for values in found:
            if values is not None and len(values) != len(self._names):
                raise ValueError(f"the memory has {len(values)} values, but the reader has {len(self._names)} columns")
        values, before, doubted = (
            None if one is None else tuple(math.nan if value is None else float(value) for value in one)
            for one in found
        )
        if values is None:
            raise ValueError("the memory has no values")
        span = [None if time is None else int(time) for time in memory["span"]]
        self.state = Held(Span(*span), values, before, doubted)

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        reader = self.reader
        needed = ([] if reader.time is None else [reader.time]) + list(self._names)
        if columns is None:
            raise ValueError(f"records are {width} numbers without names, but the model needs {listed(needed)}")
        lacking = [name for name in needed if name not in columns]
        if len(lacking) == len(needed):
            raise ValueError(f"{listed(columns)} are no names of the model's columns; it needs {listed(needed)}")
        if self.missing == "fill":
            lacking = [name for name in lacking if name == reader.time or name in reader.targets]
        if lacking:
            verb = "is" if len(lacking) == 1 else "are"
            raise ValueError(f"{listed(lacking)} {verb} missing from the columns, {listed(columns)}")

    def ahead(self, time: np.datetime64, rows: int) -> np.datetime64 | None:
        # Where gaps are passed over, nobody knows when the next row comes.
        if self.gaps == "skip":
            return None
        return np.datetime64(self.reader.pace.after(int(time.view(np.int64)), rows), "us")

    def _time(self, record: dict[str, Any]) -> tuple[int | None, tuple[str, ...]]:
        """When the record was measured, a row after the last one where it does not say; and the field that is empty."""
        name, last = self.reader.time, self.state.span.last
        if name is None:
            return None, ()
        field = record.get(name)
        if empty(field):
            if self.missing == "fill" and last is None:
                raise RecordError(f"the first record has no {name!r}, and there is none before it to count from")
            return None if last is None else self.reader.pace.after(last, 1), (name,)
        try:
            found, zoned = clock.instant(field, self.reader.form)
        except (ValueError, OverflowError) as error:
            raise RecordError(f"{name!r} is {shown(field)}, which is not a time: {error}", "no time") from error
        if zoned is not self.reader.zoned and self.reader.zoned is not None:
            wanted = f"times must {ZONES[not self.reader.zoned]}, as those of training do"
            raise RecordError(f"{name!r} is {shown(field)}, but {wanted}", wanted)
        return found, ()

    def _verdict(self, time: int | None) -> Verdict:
        if time is None:  # of a table without times, or before the first one
            span = self.state.span
            return Verdict(span, (("row", 0),)) if self.reader.time is None else Verdict(span)
        return judge(self.reader.pace, self.gaps, self.state.span, time)

    def _tokens(self, verdict: Verdict, values: Values | None, lacking: tuple[str, ...]) -> list[Token]:
        """What is taken in: gaps as the last row was, a row that waited, and this one unless it is left out."""
        held = self.state
        found, last, before = [], held.values, held.before
        for what, time in verdict.tokens:
            of_row = last if what == "gap" else held.doubted if what == "doubted" else values
            if of_row is None:
                continue
            last = _filled(of_row, last)
            if any(last[place] != last[place] for place in self.reader.target_places):
                continue  # there is nothing yet that a change could be added to
            used, filled = _filled(last, self._usual), lacking
            if what != "row":
                filled = tuple(name for name, v in zip(self._names, of_row, strict=True) if what == "gap" or v != v)
            base = np.array([used[place] for place in self.reader.target_places])
            stamp = None if self.reader.time is None else np.datetime64(time, "us")
            found.append(Token(self._x(used, before or used, time), stamp, filled, what == "gap", base))
            before = used
        doubted = held.doubted if verdict.span.doubt is not None else None
        self.state = Held(verdict.span, last, before, doubted)
        return found

    def _x(self, values: Values, before: Values, time: int) -> NDArray[np.float32]:
        """[input_dim]: what `TableReader.encode` makes of one row, for much less time."""
        row: list[float] = []
        for value, centre, hot in zip(values, self._centres, self._hot, strict=True):
            if hot is None:
                row.append(value - centre)
            else:
                row += hot[int(value)]
        row += [values[place] - before[place] for place in self.reader.target_places]
        row += self.reader.waves(time)
        return np.frombuffer(array("f", row), np.float32)  # what is too large becomes Inf, without a warning

    def _say(self, verdict: Verdict, before: Held, record: dict[str, Any], lacking: Sequence[str], taken: bool) -> None:
        """What there is to say of a record, and what was left out for good."""
        self.note, self.note_kind, self.lost = verdict.note, verdict.kind, 0
        if not (taken or verdict.doubted):
            self.lost = 1
            if not self.note:
                self.note, self.note_kind = self._why(record, lacking)
        if before.span.doubt is not None and verdict.span.doubt != before.span.doubt:
            believed = any(what == "doubted" for what, _ in verdict.tokens) and before.doubted is not None
            self.lost += not believed
            if not self.note:
                self.note = self.note_kind = "the one before it is left out: nothing bears out its time"

    def _why(self, record: dict[str, Any], lacking: Sequence[str]) -> tuple[str, str]:
        """Why a record that came in time was left out, and of which kind that is."""
        if lacking and self.missing == "skip":
            reason, kind = self._reason(record, lacking[0])
            return reason + also(lacking), kind
        unknown = [name for name in self.reader.targets if math.isnan(self.state.values[self._names.index(name)])]
        return f"no value of {listed(unknown)} is known yet, from which to forecast", "no base"

    def _reason(self, record: dict[str, Any], name: str) -> tuple[str, str]:
        """Why a field of a record counts as missing, and of which kind that is."""
        field = record.get(name)
        if not empty(field):
            reason = f"column {name!r} has {shown(field)}, a category that training has not met"
            return reason, f"column {name!r} has a new category"
        reason = f"column {name!r} is {blank(field) if name in record else 'missing'}"
        return reason, reason


def also(names: Sequence[str]) -> str:
    return "" if len(names) < 2 else f", and so {'is' if len(names) == 2 else 'are'} {len(names) - 1} more"


def _filled(values: Values, others: Values) -> Values:
    """The values, and where they are empty the others."""
    if not any(map(math.isnan, values)):
        return values
    return tuple(other if value != value else value for value, other in zip(values, others, strict=True))


def _plain(values: Values | None) -> list[float | None] | None:
    """In what JSON can hold: it knows no NaN."""
    return None if values is None else [None if value != value else value for value in values]
