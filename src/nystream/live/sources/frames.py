"""Rows of a .npy file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nystream.live.sources.source import Raw, Source


class FrameFile(Source):
    """Each row of an array [T, ...] is a record."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path.resolve())
        try:
            self._rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} cannot be read as an array of numbers: {error}") from error
        if self._rows.ndim not in (2, 3) or self._rows.dtype.kind not in "iuf":
            shape = f"{self._rows.dtype} {list(self._rows.shape)}"
            raise ValueError(f"{path} is {shape}, but must be numbers [T, width], a row for every token")

    def items(self) -> Iterator[Raw]:
        yield from self._rows

    def record(self, raw: Raw) -> NDArray[np.float64]:
        return np.array(raw, np.float64)
