"""Frames: what a log of a lane consists of.

A frame has a checksum, so that the valid beginning of a file can be told from what a crash has torn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

HEAD = struct.Struct("<IIBQQ")  # checksum of what follows it, bytes of the payload, kind, stream, number
CHECKED = 4  # from this byte on


class Kind(IntEnum):
    """What a frame is about."""

    INDEX = 1  # all that the lane has at the beginning of a file, and where
    OPEN = 2  # owner and key of a new stream
    DELETE = 3
    ROW = 4  # a record and its answer
    SNAPSHOT = 5
    SEGMENT = 6  # records before a snapshot


class Frame(NamedTuple):
    """One entry of a log."""

    kind: Kind
    stream: int
    number: int
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return HEAD.size + len(self.payload)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        head = HEAD.pack(0, len(self.payload), self.kind, self.stream, self.number)[CHECKED:]
        return crc32(self.payload, crc32(head)).to_bytes(CHECKED, "little") + head + self.payload


def decode(data: bytes, offset: int = 0) -> Frame | None:
    """Return the frame at an offset; None if there is no complete one."""
    if offset + HEAD.size > len(data):
        return None
    checksum, length, kind, stream, number = HEAD.unpack_from(data, offset)
    start = offset + HEAD.size
    if start + length > len(data):
        return None
    if crc32(memoryview(data)[offset + CHECKED : start + length]) != checksum:
        return None
    return Frame(Kind(kind), stream, number, data[start : start + length])


def decode_all(data: bytes, offset: int = 0) -> Iterator[tuple[int, Frame]]:
    """Yield the offsets and frames of a log, up to the first one that is not complete."""
    while (frame := decode(data, offset)) is not None:
        yield offset, frame
        offset += frame.size
