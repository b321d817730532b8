"""Reading the rows of a table in order of time, whichever way round they are."""

from __future__ import annotations

from nystream.data.problem import HeldOut
from nystream.data.reader import Policy
from nystream.data.table import Table
from nystream.data.table_reader import TableReader
from nystream.data.table_rows import TableRows, read_rows
from nystream.data.timestamps.column import oldest_first


def read_other(reader: TableReader, part: HeldOut, table: Table) -> TableRows:
    """The rows of another table, which must have the columns of the source."""
    try:
        return rows_in_order(reader, table)[0]
    except ValueError as error:
        raise ValueError(f"{part}={table.name} cannot be used: {error}") from error


def rows_in_order(
    reader: TableReader, table: Table, missing: Policy | None = None, gaps: Policy | None = None
) -> tuple[TableRows, tuple[str, ...]]:
    """The rows of a table in order of time, and a note if they were not."""
    ordered = table
    if reader.time is not None:
        ordered = oldest_first(table, reader.time, reader.form, reader.clock, reader.timezone)
    # A table of live records has what is known in advance in columns of its own.
    rows = read_rows(reader.live_form if reader.has_ahead(table.names) else reader, ordered, missing, gaps)
    return rows, () if ordered is table else ("newest first: sorted by time",)
