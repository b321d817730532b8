"""The files of a folder, one after another: each is a stream of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nystream.data.reader import RecordError
from nystream.live.sources.source import Raw, Source


class Folder(Source):
    """The items of all files, in order of their names. A file that cannot be read is one bad item.

    Args:
        folder: which.
        paths: of its files; at least one.
        opened: the source that a file is.
        unit: what its items are called.
    """

    def __init__(self, folder: Path, paths: Sequence[Path], opened: Callable[[Path], Source], unit: str) -> None:
        self.name, self.unit = os.fspath(folder.resolve()), unit
        self._files = {path.relative_to(folder).as_posix(): path for path in paths}
        self._open = opened
        self._now: Source | ValueError  # the file that is read, or what is wrong with it

    def items(self) -> Iterator[Raw]:
        for name, path in self._files.items():
            self.file = name
            try:
                self._now = self._open(path)
                yield from self._now.items()
            except ValueError as error:
                self._now = error
                yield b""

    def record(self, raw: Raw) -> Any:
        if isinstance(self._now, ValueError):
            raise RecordError(str(self._now), "file")
        return self._now.record(raw)
