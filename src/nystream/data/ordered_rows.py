"""Reading the rows of a table in order of time, whichever way round they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nystream.data.reader import Policy
from nystream.data.series import SeriesTables
from nystream.data.table import Table
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import Complete, TableRows, complete_rows, encoded
from nystream.data.timestamps.column import oldest_first


def rows_in_order(
    reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None
) -> tuple[TableRows, tuple[str, ...]]:
    """The rows of a table in order of time, and a note if they were not."""
    stream, turned = _in_order(reader, table, missing, gaps)
    return encoded(reader, [stream]), ("newest first: sorted by time",) if turned else ()


class SeriesRows(NamedTuple):
    """The rows of several series in order of time, one series after another."""

    rows: TableRows
    starts: tuple[int, ...]  # the first row of each
    turned: tuple[bool, ...]  # whether its rows were newest first


def series_in_order(
    reader: TableReader, series: SeriesTables, missing: Policy | None = None, gaps: Policy | None = None
) -> SeriesRows:
    """The rows of several series."""
    streams, turned = zip(*(_in_order(reader, table, missing, gaps) for table in series.tables), strict=True)
    lengths = [len(stream.values) for stream in streams]
    return SeriesRows(encoded(reader, streams), tuple((np.cumsum(lengths) - lengths).tolist()), turned)


def _in_order(reader: TableReader, table: Table, missing: Policy | None, gaps: Policy | None) -> tuple[Complete, bool]:
    """The complete rows of a table, and whether they were newest first."""
    ordered = table
    if reader.time is not None:
        ordered = oldest_first(table, reader.time, reader.form, reader.clock, reader.timezone)
    # A table of live records has what is known in advance in columns of its own.
    form = reader.live_form if reader.has_ahead(table.names) else reader
    return complete_rows(form, ordered, missing, gaps), ordered is not table
