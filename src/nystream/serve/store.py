"""What a service keeps of its streams, and what a store of it must do.

A stream in the store is a snapshot of its session, and a log of the records after it. The session is restored from the
snapshot and the records are replayed. Answers to the last records are kept too, so that a record that is sent again is
answered again and not applied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol


class StoreError(Exception):
    """The store could not be read or written. What was to be written is not in it."""


class StoredStream(NamedTuple):
    """A stream in the list of streams."""

    id: int
    owner: str
    key: str
    last: int  # number of the last record taken; 0 if there was none


class Snapshot(NamedTuple):
    """A session after some record."""

    stream: int  # id
    number: int  # of that record
    state: bytes | None  # None if no record has given a token yet
    memory: dict[str, Any]
    answers: Sequence[tuple[int, bytes]]  # numbers and packed answers of the last records up to that one


class LogRow(NamedTuple):
    """A record and its answer, both packed."""

    stream: int  # id
    number: int
    record: bytes
    answer: bytes


class Saved(NamedTuple):
    """All that is needed to resume a stream."""

    snapshot: Snapshot | None
    rows: Sequence[LogRow]  # after the snapshot, in order


class Store(Protocol):
    """Keeps streams. Every method is one transaction: it happens completely or raises StoreError."""

    def open(self, streams: Sequence[tuple[str, str]]) -> list[tuple[StoredStream, bool]]:
        """Return the streams of owners and keys, and whether each is new."""
        ...

    def find(self, owner: str, key: str) -> StoredStream | None:
        """Return a stream; None if there is none."""
        ...

    def streams(self, owner: str, after: str, limit: int) -> list[StoredStream]:
        """Return the owner's streams whose keys come after `after`, in order of their keys."""
        ...

    def count(self, owner: str) -> int:
        """Return the number of streams of an owner."""
        ...

    def load(self, stream: int) -> Saved:
        """Return what is needed to resume a stream."""
        ...

    def append(self, rows: Iterable[LogRow]) -> None:
        """Write records and answers. When this returns, they survive a crash."""
        ...

    def save(self, snapshots: Iterable[Snapshot]) -> None:
        """Replace the snapshots of streams and delete the rows of the log that they make unnecessary."""
        ...

    def overdue(self) -> StoredStream | None:
        """Return a stream whose old rows keep the log from being trimmed, so that it needs a snapshot; or None."""
        ...

    def tidy(self) -> None:
        """Do what keeps the store small, between two batches."""
        ...

    def delete(self, stream: int) -> None:
        """Delete a stream."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...
