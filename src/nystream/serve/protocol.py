"""Version 1 of the protocol: messages, errors, and their JSON and msgpack forms.

A frame of the WebSocket is one message or an array of messages; a message is an object with a "type". Text frames are
JSON, binary frames msgpack. docs/serving.md has a table of all messages.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal, NamedTuple

from nystream.extras import require

Encoding = Literal["json", "msgpack"]
Message = dict[str, Any]

SUBPROTOCOLS: dict[str, Encoding] = {"nystream.v1.json": "json", "nystream.v1.msgpack": "msgpack"}
MAX_KEY = 200  # characters
MAX_NUMBER = (1 << 63) - 1  # of a record; SQLite has no larger integers
MAX_DEPTH = 32  # of nested arrays and objects in a message

# code of an error -> status of an HTTP response
STATUS = {
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_stream": 404,
    "not_allowed": 405,
    "too_slow": 408,
    "too_old": 409,
    "conflict": 409,
    "gap": 409,
    "too_large": 413,
    "rate_limited": 429,
    "too_many_streams": 429,
    "overloaded": 503,
    "store_failed": 503,
    "moved": 503,
    "shutting_down": 503,
    "damaged": 503,
    "failed": 503,
}
# The client sends the record again, after a pause.
RETRIED = {"gap", "rate_limited", "overloaded", "store_failed", "moved", "shutting_down"}

# Close codes of the WebSocket, besides those of RFC 6455.
SLOW_CLIENT = 4008


class RequestError(Exception):
    """A request that is refused. No stream has changed.

    Args:
        code: One of the codes in `STATUS`.
        message: What came and what is needed.
        details: More fields of the error, such as the number that is expected.
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.details = code, details

    def to_dict(self) -> Message:
        """Return the error as a message's field."""
        return {"code": self.code, "message": str(self), **self.details}


class Push(NamedTuple):
    """One record of a stream."""

    key: str
    number: int | None  # None for the next one
    record: Any


def decode(data: str | bytes, encoding: Encoding) -> Any:
    """Return the values of a body; RequestError if it cannot be read."""
    value = _parsed(data, encoding)
    _require_shallow(value, MAX_DEPTH)
    return value


def _parsed(data: str | bytes, encoding: Encoding) -> Any:
    try:
        if encoding == "json":
            return json.loads(data)
        msgpack = require("msgpack frames", "msgpack")
        return msgpack.unpackb(data, timestamp=3, ext_hook=_no_extension, unicode_errors="surrogatepass")
    except (RecursionError, ValueError, TypeError, OverflowError, UnicodeError) as error:
        # msgpack's own exceptions are ValueErrors too; messages may quote the data, so they are cut.
        raise RequestError("bad_request", f"not valid {encoding}: {error!s:.100}") from None
    except Exception as error:
        raise RequestError("bad_request", f"not valid {encoding}: {type(error).__name__}") from None


def encode(value: Any, encoding: Encoding) -> str | bytes:
    """Return a frame: text for JSON, bytes for msgpack."""
    if encoding == "json":
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=str)
    return pack(value)


def pack(value: Any) -> bytes:
    """Return values as msgpack, as frames and the store have them."""
    msgpack = require("msgpack frames", "msgpack")
    packed: bytes = msgpack.packb(value, datetime=True, default=in_range, unicode_errors="surrogatepass")
    return packed


def loggable(record: Any) -> tuple[Any, bytes]:
    """Return a record as it will be read from the log, and its packed form; they differ in integers beyond 64 bits."""
    msgpack = require("msgpack frames", "msgpack")
    try:
        return record, msgpack.packb(record, datetime=True, unicode_errors="surrogatepass")
    except OverflowError:
        packed = pack(record)
        return unpack(packed), packed


def unpack(packed: bytes) -> Any:
    """Return the values of `pack`."""
    msgpack = require("msgpack frames", "msgpack")
    return msgpack.unpackb(packed, timestamp=3, strict_map_key=False, unicode_errors="surrogatepass")


def messages(data: str | bytes, encoding: Encoding) -> list[Any]:
    """Return the messages of a frame. Each is checked on its own, so that it is refused without the others."""
    value = _parsed(data, encoding)
    return value if isinstance(value, list) else [value]


def checked_message(value: Any) -> Message:
    """Return a message of a frame if it can be one."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise RequestError("bad_request", 'a message must be an object with a "type", such as "push"')
    _require_shallow(value, MAX_DEPTH)
    return value


def pushes(key: str, message: Message) -> list[Push]:
    """Return the records of a message or a body, which has a "record" or several "records"."""
    if ("record" in message) == ("records" in message):
        raise RequestError("bad_request", 'a push needs either "record" or "records"')
    records = message["records"] if "records" in message else [message["record"]]
    if not isinstance(records, list) or not records:
        raise RequestError("bad_request", '"records" must be an array of at least one record')
    first = message.get("number")
    if first is None:
        return [Push(key, None, record) for record in records]
    if type(first) is not int or not 1 <= first <= MAX_NUMBER - len(records):
        raise RequestError("bad_request", f'"number" is {first!r:.40}, but must be a whole number of at least 1')
    return [Push(key, first + place, record) for place, record in enumerate(records)]


def checked_key(key: Any) -> str:
    """Return the key of a stream if it can be one."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise RequestError(
            "bad_request", f'"key" is {key!r:.60}, but must be text of 1 to {MAX_KEY} printable characters'
        )
    return key


def _require_shallow(value: Any, depth: int) -> None:
    if isinstance(value, dict | list):
        if not depth:
            raise RequestError("bad_request", f"more than {MAX_DEPTH} arrays and objects within each other")
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, dict | list):
                _require_shallow(part, depth - 1)


def in_range(value: Any) -> Any:
    """Return an integer that msgpack cannot hold as the nearest float."""
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code} is not known")
