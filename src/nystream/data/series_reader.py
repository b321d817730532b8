"""What the reader of several series needs to know: which columns are not scaled, and how many rows count."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nystream.data.series import SeriesTables
from nystream.data.table_reader import TableReader

WEEKS = 8 * 7 * 86400.0  # seconds of rows that the statistics of a series remember
MIN_ROWS = 512  # that they remember
HISTORIES = 4  # likewise, in relation to the rows that a token depends on


def with_series(reader: TableReader, column: str, static: Sequence[str]) -> TableReader:
    """The reader of several series, whose statistics remember eight weeks, and all lags."""
    weeks = 0 if reader.step is None else round(WEEKS / reader.step)
    rows = max(MIN_ROWS, weeks, HISTORIES * reader.history)
    return dataclasses.replace(reader, series=column, static=tuple(static), series_rows=rows)


def static_columns(series: SeriesTables, names: Sequence[str], decimal: str) -> list[str]:
    """The columns of numbers that are the same in all rows of every series, apart from empty fields."""
    starts = series.starts()
    static = []
    for name in names:
        values = series.whole.numbers(name, decimal)[0][series.rows]
        least, most = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
        if not (least < most).any():
            static.append(name)
    return static


def typical_length(counts: Sequence[int]) -> int:
    """The length of the series to which the middle one of all their rows belongs: many short ones count little."""
    lengths = np.sort(counts)[::-1]
    return int(lengths[np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)])
