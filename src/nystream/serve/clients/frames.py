"""What a client sends: records are packed one by one, and messages are put into frames that the service accepts."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nystream.data.reader import shown
from nystream.extras import require
from nystream.serve.protocol import MAX_DEPTH, in_range, pack

MAX_RECORD_DEPTH = MAX_DEPTH - 2  # a record is in a message, which is in the array of a frame
ARRAY_HEADER = 5  # bytes, at most


def packed_record(record: Any) -> bytes:
    """Return a record as msgpack; ValueError if the service could not read it.

    Numbers and arrays of NumPy become plain ones, dates and times without a time zone ISO text.
    """
    _check(record, MAX_RECORD_DEPTH)
    msgpack = require("the client", "msgpack")
    packed: bytes = msgpack.packb(record, datetime=True, default=_plain, unicode_errors="surrogatepass")
    return packed


def push_start(key: str) -> bytes:
    """Return the beginning of all messages that push a record of this key."""
    return b"\x84" + b"".join(map(pack, ("type", "push", "key", key, "number")))  # a map of four fields


def push_message(start: bytes, number: int, record: bytes) -> bytes:
    """Return the message that pushes a packed record."""
    return b"".join((start, pack(number), pack("record"), record))


def frames(messages: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Divide packed messages into frames of at most `limit` bytes; a message that is larger has one of its own."""
    frame, size = list[bytes](), ARRAY_HEADER
    for message in messages:
        if frame and size + len(message) > limit:
            yield _joined(frame)
            frame, size = [], ARRAY_HEADER
        frame.append(message)
        size += len(message)
    if frame:
        yield _joined(frame)


def _joined(messages: list[bytes]) -> bytes:
    if len(messages) == 1:
        return messages[0]
    header: bytes = require("the client", "msgpack").Packer().pack_array_header(len(messages))
    return header + b"".join(messages)


def _check(value: Any, depth: int) -> None:
    if isinstance(value, dict | list | tuple):
        if not depth:
            raise ValueError(f"record has more than {MAX_RECORD_DEPTH} lists and dicts within each other")
        if isinstance(value, dict):
            for name in value:
                if not isinstance(name, str):
                    raise ValueError(f"record has the key {shown(name)}, but all keys of a dict must be text")
        for part in value.values() if isinstance(value, dict) else value:
            _check(part, depth - 1)


def _plain(value: Any) -> Any:
    """Return a value that msgpack does not know as one that it does."""
    if isinstance(value, np.ndarray | np.generic):
        # Without text, times in nanoseconds would become integers.
        return (value.astype(str) if value.dtype.kind == "M" else value).tolist()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, int):
        return in_range(value)
    raise ValueError(
        f"record has {shown(value)} of type {type(value).__name__}, which cannot be sent; send numbers, text, times, "
        "lists, dicts or NumPy arrays"
    )
