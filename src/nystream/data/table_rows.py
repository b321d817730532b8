"""Reading all rows of a table as tokens, the same that a live reader gives row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.columns import Column
from nystream.data.live_table import ZONED
from nystream.data.reader import MISSING_HINT, Policy, empty_text, is_empty
from nystream.data.row_stream import Row, initial_state, place_row, take_row
from nystream.data.table import NAT, Table, counted, listed, shortened
from nystream.data.table_reader import TableReader
from nystream.data.timestamps.timeline import GAPS_HINT

MAX_PLACES = 3  # that an error names
NOTES = {  # what is counted -> its noun, and what happened
    "incomplete": ("row", "with missing fields dropped"),
    "filled": ("missing row", "filled"),
    "skipped": ("missing row", "skipped"),
    "early": ("row", "dropped: measured before the next one was due"),
    "unconfirmed": ("row", "dropped: far from the others in time"),
}


class TableRows(NamedTuple):
    """The tokens of a whole table."""

    x: NDArray[np.float32]  # [N, input_dim]
    time: NDArray[Any] | None  # [N] datetime64
    base: NDArray[np.float64]  # [N, targets]: the last known targets
    known: NDArray[np.bool_]  # [N, targets]: whether these are from the row itself
    notes: tuple[str, ...]  # what was filled, skipped or dropped
    scale: NDArray[np.float64] | None = None  # [N, targets]: the unit of predicted changes; None for the user's


class Placed(NamedTuple):
    """The complete rows of a table, and what happened to the others."""

    rows: list[Row]
    accepted: list[int]  # numbers of the rows that were taken in
    incomplete: list[int]  # numbers of the rows that lack fields, if that is an error
    jumps: list[str]  # of time
    counts: Counter[str]


class Complete(NamedTuple):
    """The complete rows of a table, before they are tokens."""

    values: NDArray[np.float64]  # [N, columns]
    time: NDArray[Any] | None  # [N] datetime64
    base: NDArray[np.float64]  # [N, targets]
    known: NDArray[np.bool_]  # [N, targets]
    counts: Counter[str]  # what happened to other rows
    jumps: list[str]  # of time
    fields: Counter[str]  # that were filled, by column


def read_rows(
    reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None
) -> TableRows:
    """Read every row of a table, by default with the policies of training.

    Raises ValueError that names the first places where something is wrong and the policies do not allow it.
    """
    return encoded(reader, [complete_rows(reader, table, missing, gaps)])


def encoded(reader: TableReader, streams: Sequence[Complete]) -> TableRows:
    """The tokens of several streams, one after another."""
    lengths = [len(stream.values) for stream in streams]
    starts = np.cumsum(lengths) - lengths
    values, base, known = (
        np.concatenate([getattr(stream, name) for stream in streams]) for name in ("values", "base", "known")
    )
    times = [stream.time for stream in streams if stream.time is not None]
    running = reader.statistics(values, starts.tolist())
    x = np.empty((len(values), len(reader.names)), np.float32)
    for stream, start, length in zip(streams, starts.tolist(), lengths, strict=True):
        rows = slice(start, start + length)
        of_stream = None if running is None else running.at(rows)
        x[rows] = reader.encode(stream.values, stream.time, of_stream)
    counts, fields = Counter[str](), Counter[str]()
    for stream in streams:
        counts.update(stream.counts)
        fields.update(stream.fields)
    notes = _notes(reader, counts, [jump for stream in streams for jump in stream.jumps], +fields)
    return TableRows(x, np.concatenate(times) if times else None, base, known, notes, reader.scale(running))


def complete_rows(
    reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None
) -> Complete:
    """The complete rows of a table; as `read_rows`, but without tokens."""
    missing, gaps = reader.policies(missing, gaps)
    columns = [_values(table, column, reader.decimal) for column in reader.columns]
    lacking, times = np.isnan(np.column_stack(columns)), None  # [N, columns]
    untimed = np.zeros(len(table), bool)
    if reader.time is not None:
        times = table.times(reader.time, reader.form, reader.clock)
        untimed = np.isnat(times)
        if reader.zoned is not None and table.zoned(reader.time, reader.form, reader.clock) is not reader.zoned:
            raise ValueError(f"{table.name}: {ZONED[reader.zoned]}, as in training")
    placed = _place(reader, table, columns, times, lacking.any(1) | untimed, missing, gaps)
    if placed.incomplete:
        places = [_incomplete(reader, table, row, lacking[row], untimed[row]) for row in placed.incomplete[:MAX_PLACES]]
        first = shortened(places, MAX_PLACES, "; ", len(placed.incomplete))
        footer = table.footer(placed.incomplete[0], lambda row: bool(untimed[row]))
        raise ValueError(f"{table.name} has missing fields, {first}; {MISSING_HINT}{footer}")
    fields = Counter[str]()
    if missing == "fill":
        fields.update(dict(zip(reader.column_names, lacking[placed.accepted].sum(0).tolist(), strict=True)))
        for row in placed.accepted:
            if untimed[row]:
                fields[_empty_time(reader, table, row)] += 1
    targets, width = reader.target_places, len(reader.columns)
    values = np.fromiter(chain.from_iterable(row.values for row in placed.rows), float).reshape(-1, width)
    given = np.fromiter((row.given[place] for row in placed.rows for place in targets), float)
    stamps = None if times is None else np.array([row.time for row in placed.rows], np.int64).view("datetime64[us]")
    known = ~np.isnan(given).reshape(-1, len(targets))
    base = values[:, targets]
    return Complete(_with_known(reader, values, placed.rows), stamps, base, known, placed.counts, placed.jumps, +fields)


def _with_known(reader: TableReader, values: NDArray[np.float64], rows: Sequence[Row]) -> NDArray[np.float64]:
    """Values [N, columns] with those of columns that are known in advance from the rows that are forecast.

    A row that fills a gap has the last ones before it, as in a live stream. After the last rows, the last value is
    repeated: they have no target.
    """
    if not reader.known_places or not rows:
        return values
    values, last = values.copy(), 0
    source = np.minimum(np.arange(len(rows)) + reader.known_rows, len(rows) - 1)
    for place, row in enumerate(rows):
        last = last if row.kind == "gap" else place
        source[place] = source[last]
    values[:, reader.known_places] = values[source][:, reader.known_places]
    return values


def _place(
    reader: TableReader,
    table: Table,
    columns: Sequence[NDArray[np.float64]],
    times: NDArray[Any] | None,
    incomplete: NDArray[np.bool_],
    missing: Policy,
    gaps: Policy,
) -> Placed:
    """Take in row after row, as a live reader does."""
    placed, rejected, state = Placed([], [], [], [], Counter()), list[str](), initial_state(reader)
    counts, pending = placed.counts, -1  # the number of the row held back last
    values = list(zip(*(column.tolist() for column in columns), strict=True))
    microseconds = None if times is None else times.astype(np.int64).tolist()
    lacks = incomplete.tolist()
    with table.each_row("placing rows") as numbers:
        for row in numbers:
            time = None if microseconds is None else microseconds[row]
            if time == NAT:
                last = state.span.last
                if last is None and missing != "skip":
                    where, name = f"{table.name}, {table.line(row)}", _empty_time(reader, table, row)
                    footer = table.footer(row, lambda other: times is not None and bool(np.isnat(times[other])))
                    raise ValueError(f"{where}: {name!r} is empty, and there is no earlier row to count from{footer}")
                time = None if last is None else reader.spacing.after(last, 1)
            elif time is not None:
                try:
                    time = reader.moment(time, state.span.last)
                except (ValueError, OverflowError) as error:
                    raise table.bad_time(row, reader.time, reader.clock, error) from error
            verdict = place_row(reader, gaps, state, time)
            if verdict.error:
                rejected.append(f"{table.line(row)}: {verdict.error}")
                state = state._replace(span=verdict.span)
                continue
            if lacks[row] and missing == "fail" and (verdict.rows or verdict.held_back):
                placed.incomplete.append(row)
            usable = None if lacks[row] and missing == "skip" else values[row]
            rows, unknown, state = take_row(reader, state, verdict, usable)
            placed.rows.extend(rows)
            counts["unknown"] += unknown
            counts["incomplete"] += len(verdict.rows) - len(rows) - unknown
            counts["skipped"] += verdict.skipped
            for kind, _ in verdict.rows:
                if kind == "gap":
                    counts["filled"] += 1
                else:
                    placed.accepted.append(row if kind == "row" else pending)
            counts["unconfirmed"] += verdict.unconfirmed
            if verdict.held_back:
                pending = row
            elif not verdict.rows and time is not None:
                counts["early"] += 1
            elif verdict.note:
                placed.jumps.append(verdict.note)
    counts["unconfirmed"] += state.span.pending is not None
    if rejected:
        raise ValueError(f"{table.name} is not regular in time, {shortened(rejected, MAX_PLACES, '; ')}; {GAPS_HINT}")
    return placed


def _values(table: Table, column: Column, decimal: str) -> NDArray[np.float64]:
    """A column [N] as `Column.value` reads each field; ValueError with the first line that is not a finite number."""
    if column.categories:
        return np.array([column.value(field, decimal) for field in table.values(column.name)])
    values, wrong = table.numbers(column.name, decimal)
    if wrong is None and np.isinf(values).any():
        wrong = int(np.isinf(values).argmax())
    if wrong is not None:
        field, footer = table.raw(column.name, wrong), table.footer(wrong, lambda row: bool(np.isnan(values[row])))
        raise ValueError(
            f"{table.name}, {table.line(wrong)}: column {column.name!r} is {field!r}, which is not a finite number"
            f"{footer}"
        )
    return values


def _incomplete(reader: TableReader, table: Table, row: int, lacking: NDArray[np.bool_], untimed: bool) -> str:
    """Where a field is missing, and what is there instead."""
    name = _empty_time(reader, table, row) if untimed else reader.column_names[int(lacking.argmax())]
    field = table.raw(name, row)
    return f"{table.line(row)}: {name!r} is {empty_text(field) if is_empty(field) else f'{field!r}, a new category'}"


def _empty_time(reader: TableReader, table: Table, row: int) -> str:
    """The column of a row without a time that is empty: its date or its time of day, if they are two columns."""
    return next(name for name in reader.time_columns if is_empty(table.raw(name, row)))


def _notes(reader: TableReader, counts: Counter[str], jumps: Sequence[str], fields: Counter[str]) -> tuple[str, ...]:
    """What was filled, skipped or dropped; arguments as in `Complete`."""
    notes = [f"{counted(fields.total(), 'missing field')} filled, in {listed(list(fields))}"] if fields else []
    notes += [f"{counted(counts[name], what)} {fate}" for name, (what, fate) in NOTES.items() if counts[name]]
    if jumps:
        notes.append(f"time jumped {counted(len(jumps), 'time')}: {shortened(jumps, MAX_PLACES, '; ')}")
    if unknown := counts["unknown"]:
        notes.append(f"{counted(unknown, 'row')} dropped: before {listed(reader.targets)} has a value")
    return tuple(notes)
