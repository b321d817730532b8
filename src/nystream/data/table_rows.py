"""Reading all rows of a table as tokens, the same that a live reader gives row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.live_table import ZONED
from nystream.data.reader import MISSING_HINT, Policy, empty_text
from nystream.data.row_stream import Row, initial_state, place_row, take_row
from nystream.data.table import NAT, Table, counted, is_empty, listed
from nystream.data.table_reader import Column, TableReader
from nystream.data.timestamps.timeline import GAPS_HINT

MAX_PLACES = 3  # that an error names


class Rows(NamedTuple):
    """The tokens of a whole table."""

    x: NDArray[np.float32]  # [N, input_dim]
    time: NDArray[Any] | None  # [N] datetime64
    base: NDArray[np.float64]  # [N, targets]: the last known targets
    known: NDArray[np.bool_]  # [N, targets]: whether these are from the row itself
    notes: tuple[str, ...]  # what was filled, skipped or dropped


@dataclass
class Tally:
    """What happened to the rows of a table."""

    accepted: list[int] = field(default_factory=list)  # rows that were taken in
    rejected: list[str] = field(default_factory=list)  # places whose time is wrong, and why
    incomplete: list[int] = field(default_factory=list)  # rows that lack fields, if that is an error
    filled: int = 0  # missing rows that were filled in
    skipped: int = 0  # missing rows that were not
    dropped: int = 0  # rows with missing fields
    early: int = 0  # rows before the next one was due
    unconfirmed: int = 0  # rows whose time no other row confirms
    unknown: int = 0  # rows before every target had a value
    jumps: list[str] = field(default_factory=list)


def read_rows(reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None) -> Rows:
    """Read every row of a table, by default with the policies of training.

    Raises ValueError that names the first places where something is wrong and the policies do not allow it.
    """
    missing, gaps = reader.policies(missing, gaps)
    columns = [_values(table, column, reader.decimal) for column in reader.columns]
    times = None
    if reader.time is not None:
        times = table.times(reader.time, reader.form)
        if reader.zoned is not None and table.zoned(reader.time, reader.form) is not reader.zoned:
            raise ValueError(f"{table.name}: {ZONED[reader.zoned]}, as in training")
    lacking = np.isnan(np.column_stack(columns))  # [N, columns]
    untimed = np.zeros(len(table), bool) if times is None else np.isnat(times)
    rows, tally = _take_rows(reader, table, columns, times, lacking.any(1) | untimed, missing, gaps)
    if tally.rejected:
        raise ValueError(f"{table.name} is not regular in time, {_first(tally.rejected)}; {GAPS_HINT}")
    if tally.incomplete:
        places = [_incomplete(reader, table, row, lacking[row], untimed[row]) for row in tally.incomplete[:MAX_PLACES]]
        raise ValueError(f"{table.name} has missing fields, {_first(places, len(tally.incomplete))}; {MISSING_HINT}")
    if missing == "skip":
        fields = {}
    else:
        counts = lacking[tally.accepted].sum(0)
        fields = {name: int(count) for name, count in zip(reader.column_names, counts, strict=True) if count}
        if reader.time is not None and (count := int(untimed[tally.accepted].sum())):
            fields[reader.time] = count
    targets, width = reader.target_places, len(reader.columns)
    values = np.fromiter(chain.from_iterable(row.values for row in rows), float).reshape(-1, width)
    given = np.fromiter((row.given[place] for row in rows for place in targets), float).reshape(-1, len(targets))
    stamps = None if times is None else np.array([row.time for row in rows], np.int64).view("datetime64[us]")
    x = reader.encode(values, np.concatenate([values[:1], values[:-1]]), stamps)
    return Rows(x, stamps, values[:, targets], ~np.isnan(given), _notes(reader, tally, fields))


def _take_rows(
    reader: TableReader,
    table: Table,
    columns: Sequence[NDArray[np.float64]],
    times: NDArray[Any] | None,
    incomplete: NDArray[np.bool_],
    missing: Policy,
    gaps: Policy,
) -> tuple[list[Row], Tally]:
    state, complete, tally = initial_state(reader), list[Row](), Tally()
    all_values = list(zip(*(column.tolist() for column in columns), strict=True))
    all_times = None if times is None else times.astype(np.int64).tolist()
    lacks, pending = incomplete.tolist(), -1  # the row that is held back
    with table.each_row("placing rows") as numbers:
        for row in numbers:
            time = None if all_times is None else all_times[row]
            if time == NAT:
                last = state.span.last
                if last is None and missing != "skip":
                    where = f"{table.name}, {table.line(row)}"
                    raise ValueError(f"{where}: {reader.time!r} is empty, and there is no earlier row to count from")
                time = None if last is None else reader.spacing.after(last, 1)
            verdict = place_row(reader, gaps, state, time)
            if verdict.error:
                tally.rejected.append(f"{table.line(row)}: {verdict.error}")
                state = state._replace(span=verdict.span)
                continue
            if lacks[row] and missing == "fail" and (verdict.rows or verdict.held_back):
                tally.incomplete.append(row)
            usable = None if lacks[row] and missing == "skip" else all_values[row]
            rows, unknown, state = take_row(reader, state, verdict, usable)
            complete += rows
            tally.unknown += unknown
            tally.dropped += len(verdict.rows) - len(rows) - unknown
            tally.skipped += verdict.skipped
            for kind, _ in verdict.rows:
                if kind == "gap":
                    tally.filled += 1
                else:
                    tally.accepted.append(row if kind == "row" else pending)
            if pending >= 0 and (verdict.rows or verdict.held_back):
                if verdict.rows and verdict.note:
                    tally.jumps.append(verdict.note)
                else:
                    tally.unconfirmed += 1
                pending = -1
            if verdict.held_back:
                pending = row
            elif not verdict.rows and time is not None:
                tally.early += 1
    tally.unconfirmed += pending >= 0
    return complete, tally


def _values(table: Table, column: Column, decimal: str) -> NDArray[np.float64]:
    """A column [N] as `Column.value` reads each field; ValueError with the first line that is not a finite number."""
    if column.categories:
        return np.array([column.value(field, decimal) for field in table.values(column.name)])
    values, wrong = table.numbers(column.name, decimal)
    if wrong is None and np.isinf(values).any():
        wrong = int(np.isinf(values).argmax())
    if wrong is not None:
        field = table.raw(column.name, wrong)
        raise ValueError(
            f"{table.name}, {table.line(wrong)}: column {column.name!r} is {field!r}, which is not a finite number"
        )
    return values


def _incomplete(reader: TableReader, table: Table, row: int, lacking: NDArray[np.bool_], untimed: bool) -> str:
    """Where a field is missing, and what is there instead."""
    name = reader.time if reader.time is not None and untimed else reader.column_names[int(lacking.argmax())]
    field = table.raw(name, row)
    return f"{table.line(row)}: {name!r} is {empty_text(field) if is_empty(field) else f'{field!r}, a new category'}"


def _first(places: Sequence[str], count: int | None = None) -> str:
    more = (len(places) if count is None else count) - MAX_PLACES
    return "; ".join(places[:MAX_PLACES]) + (f"; and {more} more" if more > 0 else "")


def _notes(reader: TableReader, tally: Tally, fields: dict[str, int]) -> tuple[str, ...]:
    """What was filled, skipped or dropped. `fields` counts the missing fields that were filled, by column."""
    notes = [
        (sum(fields.values()), "missing field", f" filled, in {listed(list(fields))}"),
        (tally.dropped, "row", " with missing fields dropped"),
        (tally.filled, "missing row", " filled"),
        (tally.skipped, "missing row", " skipped"),
        (tally.early, "row", " dropped: measured before the next one was due"),
        (tally.unconfirmed, "row", " dropped: far from the others in time"),
    ]
    found = [counted(count, what) + text for count, what, text in notes if count]
    if tally.jumps:
        found.append(f"time jumped {counted(len(tally.jumps), 'time')}: {_first(tally.jumps)}")
    if tally.unknown:
        found.append(f"{counted(tally.unknown, 'row')} dropped: before {listed(reader.targets)} has a value")
    return tuple(found)
