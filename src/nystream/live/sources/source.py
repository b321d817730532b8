"""What a source is, and reading it with a count, so that one can go on where another process was stopped."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import RecordError
from nystream.live.saving import Position

Raw = bytes | NDArray[Any]  # a line, or numbers: what a record is made of


class Item(NamedTuple):
    """A record, or why there is none, with its number in the source, from 1."""

    number: int
    record: Any = None
    error: RecordError | None = None


class Source(ABC):
    """Where records come from."""

    unit: ClassVar[str]  # what its items are called
    again: ClassVar[bool] = True  # whether it can be read again from its beginning, as a file can
    name: str
    follow: bool = False  # wait for more where it ends

    @abstractmethod
    def items(self) -> Iterator[Raw]:
        """All of it from the beginning, or what comes from now on."""

    @abstractmethod
    def record(self, raw: Raw) -> Any:
        """The record of an item, None where it holds none (an empty line, a header); RecordError where it is bad."""

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
        self.source = source
        self._number = self._checksum = 0
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
            self._number = self._checksum = 0
            self._raws = None

    @property
    def position(self) -> Position:
        """After the item that was given last."""
        return Position(self.source.name, self._number, self._checksum, self.source.memory())

    def __iter__(self) -> Iterator[Item]:
        raws = self.source.items() if self._raws is None else self._raws
        for raw in raws:
            self._count(raw)
            try:
                record = self.source.record(raw)
            except RecordError as error:
                yield Item(self._number, error=error)
            else:
                if record is not None:
                    yield Item(self._number, record)

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
        self._number += 1
        data = raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).tobytes()
        self._checksum = zlib.crc32(b"\n", zlib.crc32(data, self._checksum))
