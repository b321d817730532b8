"""What a source is, and reading it with a count, so that one can go on where another process was stopped."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import RecordError
from nystream.live.saving import Position

Raw = bytes | NDArray[Any] | dict[str, Any]  # a line, numbers, or a row of a table: what a record is made of
Shape = tuple[Sequence[str] | None, int]  # names of columns, None of plain numbers; and how many there are


class Item(NamedTuple):
    """A record, or why there is none, with its number in the source, or in a file of it, from 1."""

    number: int
    record: Any = None
    error: RecordError | None = None
    file: str = ""  # that it is of, where the source is a folder


class Source(ABC):
    """Where records come from."""

    unit: str  # what its items are called
    again: ClassVar[bool] = True  # whether it can be read again from its beginning, as a file can
    name: str
    follow: bool = False  # wait for more where it ends
    file: str = ""  # that the last item is of, where the source is a folder: each is a stream of its own
    unfinished: bool = False  # the last item was a line without an end: it may have been cut short

    @abstractmethod
    def items(self) -> Iterator[Raw]:
        """All of it from the beginning, or what comes from now on."""

    @abstractmethod
    def record(self, raw: Raw) -> Any:
        """The record of an item, None where it holds none (an empty line, a header); RecordError where it is bad."""

    def shape(self) -> Shape | None:
        """What all its records are like, once that is known; None where each may be different."""
        return None

    def pass_over(self, raw: Raw) -> None:  # noqa: B027
        """An item that was taken in before."""

    def memory(self) -> dict[str, Any] | None:
        """What it has found out and the next process must know, in what JSON can hold."""
        return None

    def remember(self, memory: dict[str, Any] | None) -> None:  # noqa: B027
        """The inverse of `memory`."""


class Feed:
    """The records of a source, counted.

    Args:
        source: where they come from.
        after: how far it was read before. A file goes on after that, if it begins with what was read; what cannot be
            read again, such as standard input, goes on with what comes.
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
                    f"cannot be gone on with; under another name it is read from its beginning"
                )
            self._begin()
            self._raws = None

    @property
    def position(self) -> Position:
        """After the item that was given last."""
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
        """The item that was given last was not taken in. Where it may have been cut short, it will be read again."""
        if self.source.unfinished:
            self._number, self._checksum = self._before

    def _begin(self) -> None:
        """Nothing of the source has been read."""
        self._number = self._checksum = 0
        self._before: tuple[int, int] = (0, 0)  # the last item
        self._first = 0  # items of the files before this one
        self._file = self.source.file = ""

    def _skip(self, after: Position) -> bool:
        """Pass over what was read; whether it is still there."""
        waits, self.source.follow = self.source.follow, False
        self._raws = self.source.items()
        for raw in self._raws if after.items else ():
            self._count(raw)
            self.source.pass_over(raw)
            if self._number == after.items:
                break
        self.source.follow = waits
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
