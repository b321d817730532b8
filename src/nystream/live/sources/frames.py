"""Rows of a feature file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nystream.data.frames import features
from nystream.live.sources.source import Raw, Shape, Source


class FrameFile(Source):
    """Each row of an array [T, ...] is a record: that of a .npy, or x of an .npz."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.name, self.path = os.fspath(path.resolve()), path
        self._rows = self._read()

    def items(self) -> Iterator[Raw]:
        yield from self._rows

    def record(self, raw: Raw) -> NDArray[np.float64]:
        return np.array(raw, np.float64)

    def shape(self) -> Shape:
        return None, int(np.prod(self._rows.shape[1:]))

    def _read(self) -> NDArray[np.generic]:
        if self.path.suffix.lower() == ".npz":
            try:
                return features(self.path)[0]
            except ValueError as error:
                raise ValueError(f"{self.path} cannot be streamed: {error}") from error
        try:
            rows = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{self.path} cannot be read as an array of numbers: {error}") from error
        if rows.ndim not in (2, 3) or rows.dtype.kind not in "iuf":
            shape = f"{rows.dtype} {list(rows.shape)}"
            raise ValueError(f"{self.path} is {shape}, but must be numbers [T, width], a row for every token")
        return rows
