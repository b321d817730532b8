"""Rows of a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nystream.data.table import read_table
from nystream.live.sources.source import Raw, Shape, Source


class TableFile(Source):
    """Each row is a record."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path.resolve())
        self._table = read_table(path)

    def items(self) -> Iterator[Raw]:
        return self._table.records()

    def record(self, raw: Raw) -> Any:
        return raw

    def shape(self) -> Shape:
        return self._table.names, len(self._table.names)
