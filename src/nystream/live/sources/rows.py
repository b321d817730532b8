"""Files whose rows are records: feature files and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.frames import features
from nystream.data.known import with_ahead
from nystream.data.table import read_table
from nystream.data.table_reader import TableReader
from nystream.live.sources.source import Raw, Shape, Source


class FrameFile(Source):
    """Each row of an array [T, ...] is a record: the array of a .npy, or x of an .npz."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path.resolve())
        try:
            self._rows, _ = features(path, dims=(2, 3), mmap=True)
        except ValueError as error:
            raise ValueError(f"{path} cannot be streamed: {error}") from error

    def items(self) -> Iterator[Raw]:
        yield from self._rows

    def record(self, raw: Raw) -> NDArray[np.float64]:
        return np.array(raw, np.float64)

    def shape(self) -> Shape:
        return None, int(np.prod(self._rows.shape[1:]))


class TableFile(Source):
    """Each row of a table is a record.

    Args:
        path: A Parquet file, or a CSV file that is not read line by line.
        reader: Reads ahead what it knows in advance, unless the table has it as live records do.
        skip_lines: The number of lines before the header of a CSV file.
    """

    unit = "row"

    def __init__(self, path: Path, reader: TableReader | None = None, skip_lines: int = 0) -> None:
        self.name = os.fspath(path.resolve())
        self._table = read_table(path, skip_lines=skip_lines)
        names = set(self._table.names)
        if reader is not None and set(reader.known) <= names and not reader.has_ahead(names):
            self._table = with_ahead(self._table, reader)

    def items(self) -> Iterator[Raw]:
        return self._table.records()

    def record(self, raw: Raw) -> Any:
        return raw

    def shape(self) -> Shape:
        return self._table.names, len(self._table.names)
