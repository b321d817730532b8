"""Reading ahead in a table: what is known in advance as live records have it, in fields of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from nystream.data.row_stream import initial_state, place_row
from nystream.data.table import NAT, Table, require
from nystream.data.table_reader import TableReader, ahead_name


def with_ahead(table: Table, reader: TableReader) -> Table:
    """Return the table with a column "NAME ahead" for every column that is known in advance.

    It has the value of the row that is forecast or, if that one is missing in time, of the last one before it; None
    after the end of the table.
    """
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
    """The number of each row [N] in a stream in which gaps are filled; −1 if it is dropped."""
    positions, count, pending, state = np.full(len(table), -1), 0, -1, initial_state(reader)
    times: list[int | None] = [None] * len(table)
    if reader.time is not None:
        times = table.times(reader.time, reader.form, reader.clock).astype(np.int64).tolist()
    for row, time in enumerate(times):
        last = state.span.last
        if time == NAT:
            time = None if last is None else reader.spacing.after(last, 1)
        elif time is not None:
            try:
                time = reader.moment(time, last)
            except (ValueError, OverflowError) as error:
                raise table.bad_time(row, reader.time, reader.clock, error) from error
        verdict = place_row(reader, "fill", state, time)
        for kind, _ in verdict.rows:
            if kind != "gap":
                positions[row if kind == "row" else pending] = count
            count += 1
        if verdict.held_back:
            pending = row
        state = state._replace(span=verdict.span)
    return positions
