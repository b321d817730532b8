"""Reading ahead in a table gives live records, with the tokens of the whole table."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nystream.data.known import with_ahead
from nystream.data.table import Table
from nystream.data.table_reader import Column, TableReader
from nystream.data.table_rows import read_rows

READER = TableReader(
    columns=(Column("load"), Column("wind", usual=-1.0), Column("kind", ("a", "b"))),
    targets=("load",),
    time="time",
    step=3600.0,
    known=("wind", "kind"),
    known_rows=2,
)
STEPS = st.sampled_from([1.0] * 8 + [2.0, 4.0, 1.1, 0.0, -1.0, 0.3, 150.0])


def table_of(hours, first=0):
    stamps = [(datetime(2024, 1, 1) + timedelta(hours=hour)).isoformat(" ") for hour in hours]
    rows = range(first, first + len(stamps))
    kinds = ["ab"[row % 3 == 0] for row in rows]
    columns = {"time": stamps, "load": [str(row) for row in rows], "wind": [str(row**2) for row in rows], "kind": kinds}
    return Table("rows.csv", pl.DataFrame(columns), first_line=2)


@given(steps=st.lists(STEPS, min_size=2, max_size=15), timed=st.booleans())
def test_live_is_offline(steps, timed):
    assume(steps[1] >= 0)  # not newest first
    reader = READER if timed else replace(READER, time=None, step=None)
    gaps = "fill" if timed else "fail"
    table = table_of(np.cumsum(steps))
    offline, live = read_rows(reader, table, gaps=gaps), reader.live(missing="fill", gaps=gaps)
    tokens = [token for record in with_ahead(table, reader).records() for token in live.read(record)]
    assert len(tokens) == len(offline.x)
    for token, x in list(zip(tokens, offline.x, strict=True))[: -reader.known_rows]:
        np.testing.assert_array_equal(token.x, x)


def test_rows_ahead():
    table = with_ahead(table_of([0, 1, 2, 5, 5, 6, 7]), READER)  # a gap, and a row that came again
    assert table.values("wind ahead") == ["4", "4", "4", "36", None, None, None]
    assert table.values("kind ahead") == ["a", "a", "a", "b", None, None, None]
    plain = with_ahead(table_of(range(4)), replace(READER, time=None, step=None))
    assert plain.values("wind ahead") == ["4", "9", None, None]


def test_rows_without_a_valid_time_are_left_to_the_stream():
    table = table_of(range(5))
    stamps = pl.Series("time", [*table.values("time")[:2], "Total", None, "2024-01-01 03:00:00"])
    table = with_ahead(Table("a.csv", table.frame.with_columns(stamps), first_line=2), READER)
    assert table.values("wind ahead") == ["1", "16", None, None, None]
    table = with_ahead(Table("a.csv", table.frame.with_columns(stamps), first_line=2), replace(READER, missing="fill"))
    assert table.values("wind ahead") == ["9", "16", None, None, None]
    with pytest.raises(ValueError, match=r"rows.csv is newest first, .*: sort its rows by time"):
        with_ahead(table_of(range(5)[::-1]), READER)
