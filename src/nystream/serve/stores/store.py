"""What a service keeps of its streams, and what a store of it must do.

A stream in the store is a snapshot of its session, and a log of the records after it. The session is restored from the
snapshot and the records are replayed. Answers to the last records are kept too, so that a record that is sent again is
answered again and not applied again. Some of the records before the snapshot are kept in segments: a snapshot is
worthless with other weights, and a retrained model reads these records instead.

Several processes may share a store. Who loads a stream owns it from then on, and what an earlier owner still wants to
write is refused, so that a stream never advances in two places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

RECORDS_PER_TOKEN = 64  # the most that are kept: a token may be made of as many frames


class StoreError(Exception):
    """The store could not be read or written. What was to be written may be in it only if the answer was lost."""


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
    tokens: int  # that the session has taken in
    state: bytes | None  # None if no record has given a token yet
    memory: dict[str, Any]
    answers: Sequence[tuple[int, bytes]]  # numbers and sealed answers of the last records up to that one
    model: str  # whose state it is
    exact_after: int = 0  # tokens after which answers are those of a stream that this model has read from its start


class LogRow(NamedTuple):
    """A record and its answer, both packed and sealed: see `seals`."""

    stream: int  # id
    number: int
    record: bytes
    answer: bytes


class Segment(NamedTuple):
    """Records between two snapshots."""

    number: int  # of the last record before them
    tokens: int  # of the session after that record
    memory: dict[str, Any] | None  # of the session after that record; None if there was none
    records: Sequence[bytes]


class Kept(NamedTuple):
    """How much of a stream the segments must reach back, from the newest snapshot: so many records and tokens."""

    records: int
    tokens: int

    def needed(self, starts: Sequence[tuple[int, int]], number: int, tokens: int) -> int:
        """Return how many of the newest segments are needed.

        Args:
            starts: The records and tokens before each segment, oldest first.
            number, tokens: Those at the end of the last one.
        """
        if not self.records and not self.tokens:
            return 0
        for count, (first, before) in enumerate(reversed(starts), 1):
            # Many records may give no token at all: there is a limit to those that are kept for the sake of tokens.
            has_tokens = tokens - before >= self.tokens or number - first >= RECORDS_PER_TOKEN * self.tokens
            if number - first >= self.records and has_tokens:
                return count
        return len(starts)


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

    def load(self, stream: int) -> Saved | None:
        """Become the owner of a stream, and return what is needed to resume it; None if it was deleted."""
        ...

    def owns(self, stream: int) -> bool:
        """Whether a stream that was loaded here still belongs to this process."""
        ...

    def history(self, stream: int) -> list[Segment]:
        """Return the segments of a stream, oldest first; the last one ends at the snapshot."""
        ...

    def append(self, rows: Iterable[LogRow]) -> set[int]:
        """Write records and answers. When this returns, they survive a crash.

        Return the ids of streams that another process owns or that were deleted: their rows were not written.
        """
        ...

    def save(self, snapshots: Iterable[Snapshot]) -> set[int]:
        """Replace the snapshots of streams, and delete the records that they make unnecessary.

        Return the ids of streams that another process owns or that were deleted: they have not changed.
        """
        ...

    def overdue(self) -> StoredStream | None:
        """Return a stream whose old rows keep the log from being trimmed, so that it needs a snapshot; or None."""
        ...

    def outdated(self, after: int, limit: int) -> list[StoredStream]:
        """Return streams whose snapshots are of another model, in order of their ids, from after one on."""
        ...

    def tidy(self) -> None:
        """Do what keeps the store small, between two batches."""
        ...

    def delete(self, stream: int) -> None:
        """Delete a stream."""
        ...

    def size(self) -> int | None:
        """Return the bytes that it takes on the disk, if they are known here. Any thread may call it."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


def other_model(store: str, theirs: str, ours: str) -> ValueError:
    """Return the error if a store has streams of another model, or of this one with another reader."""
    way_out = "give `migrate` to continue them with this one, or another `store` for new streams"
    if theirs.partition("-")[0] == ours.partition("-")[0]:
        return ValueError(
            f"store={store} has streams that were read with other policies; give `missing` and `gaps` as they were, or "
            f"{way_out.replace('this one', 'these')}"
        )
    return ValueError(f"store={store} has streams of another model ({theirs:.8}… there, {ours:.8}… here); {way_out}")
