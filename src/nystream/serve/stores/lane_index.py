"""What a lane has, and where: an index of its files, which is all of them that a process keeps in memory.

The index follows from frames: that of the newest log's beginning, and each frame after it. A frame that comes again at
another place replaces the earlier one, so that frames can be moved from file to file.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from nystream.serve.lanes import LANES
from nystream.serve.protocol import pack, unpack
from nystream.serve.stores.frames import Frame, Kind, decode, decode_all
from nystream.serve.stores.store import Segment, Snapshot, StoredStream

OFFSET_BITS = 40
ELSEWHERE = 0  # the place of a frame that follows later in the log


class Part(NamedTuple):
    """A file of a lane."""

    name: str
    size: int


class SegmentPlace(NamedTuple):
    """Where a segment is; the records and tokens before it tell whether it is needed."""

    number: int
    tokens: int
    place: int
    size: int


class Entry:
    """A stream. Its rows follow its snapshot without a gap, so that a place in `rows` stands for a number.

    Attributes:
        number, model: Of the snapshot; 0 and "" if there is none.
        snapshot, snapshot_size: Where it is, and its bytes; 0 if there is none.
        segments: Oldest first.
        rows, row_sizes: Where the rows after the snapshot are.
    """

    __slots__ = (
        "id", "key", "model", "number", "owner", "row_sizes", "rows", "segments", "snapshot", "snapshot_size"
    )  # fmt: skip

    def __init__(self, id: int, owner: str, key: str) -> None:
        self.id, self.owner, self.key = id, owner, key
        self.number, self.model, self.snapshot, self.snapshot_size = 0, "", ELSEWHERE, 0
        self.segments: list[SegmentPlace] = []
        self.rows, self.row_sizes = array("Q"), array("I")

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self.number + len(self.rows)

    @property
    def stored(self) -> StoredStream:
        """Its line in the list of streams."""
        return StoredStream(self.id, self.owner, self.key, self.last)

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield the places and sizes of its frames."""
        if self.snapshot_size:
            yield self.snapshot, self.snapshot_size
        yield from ((segment.place, segment.size) for segment in self.segments)
        yield from zip(self.rows, self.row_sizes, strict=True)


class Index:
    """The streams of a lane.

    Attributes:
        streams, ids: By id; ids by owner and key.
        parts: The files with frames in use, by number; the newest log is not one of them.
        file: The number of the newest log.
        live: Bytes in use, by number of the file.
    """

    def __init__(self) -> None:
        self.streams: dict[int, Entry] = {}
        self.ids: dict[tuple[str, str], int] = {}
        self.parts: dict[int, Part] = {}
        self.live: dict[int, int] = {}
        self.file = self._count = 0

    @classmethod
    def read(cls, log: bytes) -> tuple[Index, int]:
        """Return the index of a log, and up to where the log is valid; OSError if its beginning is damaged."""
        first = decode(log)
        if first is None or first.kind != Kind.INDEX:
            raise OSError("the beginning of the log is damaged")
        index = cls()
        index.file, index._count, parts, streams = unpack(first.payload)
        index.parts = {file: Part(*part) for file, part in parts.items()}
        for id, owner, key, number, model, snapshot, snapshot_size, segments, rows, row_sizes in streams:
            entry = index._add(id, owner, key)
            entry.number, entry.model, entry.snapshot, entry.snapshot_size = number, model, snapshot, snapshot_size
            entry.segments = [SegmentPlace(*segment) for segment in segments]
            entry.rows.extend(rows)
            entry.row_sizes.extend(row_sizes)
            for place, size in entry.places():
                index._use(place, size)
        return index, index.extend(log, first.size)

    def extend(self, log: bytes, offset: int, start: int = 0) -> int:
        """Take in the frames of the log from an offset on; `start` is the offset in the file at which `log` starts."""
        for place, frame in decode_all(log, offset):
            self.apply(frame, start + place)
            offset = place + frame.size
        return offset

    def begin(self, ended: Part | None = None) -> Frame:
        """Return the first frame of the next log.

        Args:
            ended: The file of the present log, which becomes one of the parts; None if its frames in use are copied
                to the next log instead.
        """
        parts = {file: part for file, part in self.parts.items() if self.live.get(file)}
        if ended is not None:
            parts[self.file] = ended
        copied = self.file if ended is None else None
        payload = (self.file + 1, self._count, parts, [_packed(entry, copied) for entry in self.streams.values()])
        return Frame(Kind.INDEX, 0, 0, pack(payload))

    def new_id(self, lane: int) -> int:
        """Return the id of the next stream; ids of different lanes differ."""
        self._count += 1
        return self._count * LANES + lane

    def apply(self, frame: Frame, offset: int) -> None:
        """Take in a frame of the newest log."""
        id, place = frame.stream, self.file << OFFSET_BITS | offset
        if frame.kind == Kind.OPEN:
            self._add(id, *unpack(frame.payload))
            self._count = max(self._count, id // LANES)
        elif (entry := self.streams.get(id)) is None:
            return  # it was deleted
        elif frame.kind == Kind.DELETE:
            for place, size in entry.places():
                self._use(place, -size)
            del self.streams[id], self.ids[entry.owner, entry.key]
        elif frame.kind == Kind.ROW:
            self._row(entry, frame, place)
        elif frame.kind == Kind.SEGMENT:
            tokens, *_ = unpack(frame.payload)
            self._drop_segments(entry, frame.number, frame.number + 1)
            entry.segments.append(SegmentPlace(frame.number, tokens, place, frame.size))
            entry.segments.sort()
            self._use(place, frame.size)
        elif frame.kind == Kind.SNAPSHOT:
            self._snapshot(entry, frame, place)

    def frames_in(self, file: int) -> list[tuple[int, int]]:
        """Return the offsets and sizes of the frames of a file that are in use, in order."""
        return sorted(
            (place & ((1 << OFFSET_BITS) - 1), size)
            for entry in self.streams.values()
            for place, size in entry.places()
            if place >> OFFSET_BITS == file
        )

    def place(self, frame: Frame) -> int | None:
        """Return where the index has a frame."""
        entry = self.streams.get(frame.stream)
        if entry is None:
            return None
        if frame.kind == Kind.SNAPSHOT:
            return entry.snapshot if frame.number == entry.number else None
        if frame.kind == Kind.SEGMENT:
            return next((segment.place for segment in entry.segments if segment.number == frame.number), None)
        return entry.rows[frame.number - entry.number - 1] if entry.number < frame.number <= entry.last else None

    def dead(self) -> list[int]:
        """Return the numbers of the parts that have nothing in use."""
        return [file for file in self.parts if not self.live.get(file)]

    def _add(self, id: int, owner: str, key: str) -> Entry:
        entry = self.streams[id] = Entry(id, owner, key)
        self.ids[owner, key] = id
        return entry

    def _row(self, entry: Entry, frame: Frame, place: int) -> None:
        at = frame.number - entry.number - 1
        if at < 0:
            return  # the snapshot has it
        if at > len(entry.rows):
            raise OSError(f"the log is damaged: row {frame.number} of stream {entry.id} follows row {entry.last}")
        if at == len(entry.rows):
            entry.rows.append(place)
            entry.row_sizes.append(frame.size)
        else:
            self._use(entry.rows[at], -entry.row_sizes[at])
            entry.rows[at], entry.row_sizes[at] = place, frame.size
        self._use(place, frame.size)

    def _snapshot(self, entry: Entry, frame: Frame, place: int) -> None:
        self._use(entry.snapshot, -entry.snapshot_size)
        rows = max(0, frame.number - entry.number)
        for at, size in zip(entry.rows[:rows], entry.row_sizes[:rows], strict=True):
            self._use(at, -size)
        del entry.rows[:rows], entry.row_sizes[:rows]
        first, entry.model, *_ = unpack(frame.payload)
        entry.number, entry.snapshot, entry.snapshot_size = frame.number, place, frame.size
        self._use(place, frame.size)
        self._drop_segments(entry, 0, first)

    def _drop_segments(self, entry: Entry, first: int, end: int) -> None:
        """Drop the segments that begin after record `first` or later, but before `end`."""
        dropped = [segment for segment in entry.segments if first <= segment.number < end]
        for segment in dropped:
            self._use(segment.place, -segment.size)
            entry.segments.remove(segment)

    def _use(self, place: int, size: int) -> None:
        if place != ELSEWHERE:
            file = place >> OFFSET_BITS
            self.live[file] = self.live.get(file, 0) + size


def _packed(entry: Entry, copied: int | None) -> tuple[object, ...]:
    """Return an entry as the first frame of a log has it; frames of the file `copied` follow in the log."""

    def kept(place: int) -> int:
        return ELSEWHERE if place >> OFFSET_BITS == copied else place

    segments = [segment._replace(place=kept(segment.place)) for segment in entry.segments]
    rows = [kept(place) for place in entry.rows]
    snapshot = (entry.number, entry.model, kept(entry.snapshot), entry.snapshot_size)
    return entry.id, entry.owner, entry.key, *snapshot, segments, rows, list(entry.row_sizes)


def snapshot_frame(snapshot: Snapshot, first: int) -> Frame:
    """Return the frame of a snapshot; segments that begin before record `first` are dropped with it."""
    stream, number, tokens, state, memory, answers, model, exact_after = snapshot
    # JSON as in SQLite, because msgpack has no integers beyond 64 bits.
    payload = pack((first, model, tokens, state, json.dumps(memory), list(answers), exact_after))
    return Frame(Kind.SNAPSHOT, stream, number, payload)


def snapshot_of(frame: Frame) -> Snapshot:
    """Return the snapshot of a frame."""
    _, model, tokens, state, memory, answers, exact_after = unpack(frame.payload)
    kept = [(number, answer) for number, answer in answers]
    return Snapshot(frame.stream, frame.number, tokens, state, json.loads(memory), kept, model, exact_after)


def segment_frame(stream: int, segment: Segment) -> Frame:
    """Return the frame of a segment."""
    memory = None if segment.memory is None else json.dumps(segment.memory)
    return Frame(Kind.SEGMENT, stream, segment.number, pack((segment.tokens, memory, list(segment.records))))


def segment_of(frame: Frame) -> Segment:
    """Return the segment of a frame."""
    tokens, memory, records = unpack(frame.payload)
    return Segment(frame.number, tokens, None if memory is None else json.loads(memory), records)
