"""Sources of records, and reading them with a count, so that another process can resume."""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import RecordError
from nystream.live.saving import Position

Raw = bytes | NDArray[Any] | dict[str, Any]  # an item before parsing: a line, numbers, or a row of a table
Shape = tuple[Sequence[str] | None, int]  # column names (None for plain numbers), and their number


class Item(NamedTuple):
    """A record, or why it cannot be read, with its number in the source, or in a file of it, from 1."""

    number: int
    record: Any = None
    error: RecordError | None = None
    file: str = ""  # the file it is from, if the source is a folder


class Source(ABC):
    """Where records come from."""

    unit: str  # what its items are called
    again: ClassVar[bool] = True  # whether it can be read again from its beginning, as a file can
    name: str
    follow: bool = False  # wait for more at the end
    file: str = ""  # the file of the last item, if the source is a folder; each is a separate stream
    unfinished: bool = False  # the last item was a line without an end, which may be incomplete

    @abstractmethod
    def items(self) -> Iterator[Raw]:
        """Yield all items from the beginning, or those that come from now on."""

    @abstractmethod
    def record(self, raw: Raw) -> Any:
        """Return the record of an item, None if it has none (an empty line, a header); RecordError if it is bad."""

    def shape(self) -> Shape | None:
        """Return the shape of all records, once it is known; None if each may be different."""
        return None

    def replay(self, raw: Raw) -> None:  # noqa: B027
        """Update the source with an item that was read before, without returning its record."""

    def memory(self) -> dict[str, Any] | None:
        """Return what the next process must know to resume, as JSON-compatible values."""
        return None

    def remember(self, memory: dict[str, Any] | None) -> None:  # noqa: B027
        """Restore what `memory` returned."""


class Folder(Source):
    """The items of all files of a folder, in order of their names. A file that cannot be read is one bad item.

    Args:
        folder: The folder.
        paths: Its files; at least one.
        opened: Opens a file as a source.
        unit: What the items are called.
    """

    def __init__(self, folder: Path, paths: Sequence[Path], opened: Callable[[Path], Source], unit: str) -> None:
        self.name, self.unit = os.fspath(folder.resolve()), unit
        self._files = {path.relative_to(folder).as_posix(): path for path in paths}
        self._open = opened
        self._current: Source | ValueError  # the open file, or what is wrong with it

    def items(self) -> Iterator[Raw]:
        for name, path in self._files.items():
            self.file = name
            try:
                self._current = self._open(path)
                yield from self._current.items()
            except ValueError as error:
                self._current = error
                yield b""

    def record(self, raw: Raw) -> Any:
        if isinstance(self._current, ValueError):
            raise RecordError(str(self._current), "file")
        return self._current.record(raw)

    def replay(self, raw: Raw) -> None:
        if not isinstance(self._current, ValueError):
            self._current.replay(raw)


class Feed:
    """The records of a source, counted.

    Args:
        source: Where they come from.
        after: How far it was read before. A file continues after that, if it still begins with the same content; a
            source that cannot be read again, such as standard input, continues with the next item.
    """

    def __init__(self, source: Source, after: Position | None = None) -> None:
        self.source, self.resumed = source, after is not None
        self._begin()
        self._raws: Iterator[Raw] | None = None
        if after is None:
            return
        if not source.again:
            source.remember(after.memory)
        elif not self._skip(after):
            if after.source == source.name:
                raise ValueError(
                    f"{source.name} does not begin with the {after.items} {source.unit}s that were read from it, so it "
                    f"cannot be resumed; under another name it is read from the beginning"
                )
            self._begin()
            self._raws = None

    @property
    def position(self) -> Position:
        """The position after the last item."""
        return Position(self.source.name, self._number, self._checksum, self.source.memory())

    def __iter__(self) -> Iterator[Item]:
        raws = self.source.items() if self._raws is None else self._raws
        for raw in raws:
            self._count(raw)
            number, file = self._number - self._first, self.source.file
            try:
                record = self.source.record(raw)
            except RecordError as error:
                yield Item(number, error=error, file=file)
            else:
                if record is not None:
                    yield Item(number, record, file=file)
                else:
                    self.leave()

    def leave(self) -> None:
        """Note that the last item was not taken in. If it may have been incomplete, it will be read again."""
        if self.source.unfinished:
            self._number, self._checksum = self._before

    def _begin(self) -> None:
        self._number = self._checksum = 0
        self._before: tuple[int, int] = 0, 0  # number and checksum before the last item
        self._first = 0  # number of items of earlier files
        self._file = self.source.file = ""

    def _skip(self, after: Position) -> bool:
        """Skip the items that were read before; return whether they are still the same."""
        follow, self.source.follow = self.source.follow, False
        self._raws = self.source.items()
        for raw in self._raws if after.items else ():
            self._count(raw)
            self.source.replay(raw)
            if self._number == after.items:
                break
        self.source.follow = follow
        return (self._number, self._checksum) == (after.items, after.checksum)

    def _count(self, raw: Raw) -> None:
        self._before = self._number, self._checksum
        if self.source.file != self._file:
            self._file, self._first = self.source.file, self._number
        self._number += 1
        if isinstance(raw, dict):
            data = repr(list(raw.values())).encode()
        else:
            data = raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).tobytes()
        self._checksum = zlib.crc32(b"\n", zlib.crc32(data, self._checksum))
