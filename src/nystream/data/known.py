"""Reading ahead in a table: what is known in advance as live records have it, in fields of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from nystream.data.row_stream import initial_state, place_row
from nystream.data.series import series_in
from nystream.data.table import Table, require
from nystream.data.table_reader import TableReader, ahead_name
from nystream.data.timestamps.parse import parse_time
from nystream.data.timestamps.timeline import NEWEST_FIRST


def with_ahead(table: Table, reader: TableReader) -> Table:
    """Return the table with a column "NAME ahead" for every column that is known in advance.

    It has the value of the row that is forecast or, if that one is missing in time, of the last one before it; None
    after the end of the table. In a table of several series, rows are those of the same series.
    """
    if reader.series is not None and reader.series in table.names:
        series = series_in(table, reader.series)
        frames = [_with_ahead(part, reader).frame for part in series.tables]
        frame = require().concat(frames)[np.argsort(series.rows)]
        return dataclasses.replace(table, frame=frame)
    return _with_ahead(table, reader)


def _with_ahead(table: Table, reader: TableReader) -> Table:
    positions = _positions(table, reader)
    placed = np.flatnonzero(positions >= 0)
    order = placed[np.argsort(positions[placed], kind="stable")]
    wanted = positions + reader.known_rows
    # The last row that is not after the wanted one.
    places = np.searchsorted(positions[order], wanted, side="right") - 1
    known = (positions >= 0) & (wanted <= positions.max())
    rows = [int(order[place]) if there else None for place, there in zip(places, known, strict=True)]
    pl = require()
    columns = [
        table.frame[name].gather(pl.Series(rows, dtype=pl.UInt32)).alias(ahead_name(name)) for name in reader.known
    ]
    return dataclasses.replace(table, frame=table.frame.with_columns(columns))


def _positions(table: Table, reader: TableReader) -> NDArray[np.int64]:
    """The number of each row [N] in a stream in which gaps are filled; −1 if it is dropped or has no valid time."""
    positions, count, pending, state = np.full(len(table), -1), 0, -1, initial_state(reader)
    backwards = False
    fields = [None] * len(table) if reader.time is None else table.time_fields(reader.time, reader.clock)
    for row, field in enumerate(fields):
        last, time = state.span.last, None
        if field is not None:
            try:
                time = reader.moment(parse_time(field, reader.form)[0], last)
            except (ValueError, OverflowError):
                continue  # the reader of the stream reports it
        elif reader.time is not None:
            if last is None or reader.missing != "fill":
                continue
            time = reader.spacing.after(last, 1)
        verdict = place_row(reader, "fill", state, time)
        backwards |= NEWEST_FIRST in verdict.note
        for kind, _ in verdict.rows:
            if kind != "gap":
                positions[row if kind == "row" else pending] = count
            count += 1
        if verdict.held_back:
            pending = row
        state = state._replace(span=verdict.span)
    if backwards and (positions >= 0).mean() < 0.5:
        raise ValueError(f"{table.name} is newest first, but a stream must be oldest first: sort its rows by time")
    return positions
