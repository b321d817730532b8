"""A lane of a shared folder that this process owns: its index, and the log that it appends to.

A log begins with the index of the lane. What the index refers to is in the log itself, or in earlier logs, the parts of
the lane, which no one appends to any more. So a log that has become long is simply followed by another one, and a lane
is claimed without copying its parts; only the frames in use of the last log are copied, because the process before may
still be appending to it. When much of the parts is not in use any more, the rest of one of them is appended to the log
again, a little between two batches, and the part is removed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from nystream.serve.protocol import pack, unpack
from nystream.serve.stores.frames import Frame, Kind, decode
from nystream.serve.stores.lane_claims import LostError, claim, write_log
from nystream.serve.stores.lane_index import (
    OFFSET_BITS,
    Index,
    Part,
    segment_frame,
    segment_of,
    snapshot_frame,
    snapshot_of,
)
from nystream.serve.stores.store import Kept, LogRow, Saved, Segment, Snapshot

LOG_BYTES = 4 << 20  # from which on a log is followed by another one
INDEX_SHARE = 4  # and from so many times its index on, so that indexes are a small part of what is written
MAX_USE, SLACK_BYTES = 2, 8 << 20  # bytes of a lane for each that is in use, and more
MOVED_BYTES = 1 << 20  # of a part, between two batches

log = logging.getLogger(__name__)


class Lane:
    """A lane that this process owns until another one claims it.

    Args:
        folder: The lane's; it is claimed.
        number: The lane's.

    Attributes:
        index: What the lane has.
        loaded: Ids of the streams that were loaded since the lane was claimed: those in memory since before that may
            have been continued by another process.
        is_doubtful: Whether the system has failed to bring the log to the disk. It may forget about that, so that the
            lane must be claimed again, which copies what the log has.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.loaded, self.is_doubtful = set[int](), False
        self._pending: Sequence[Frame] = ()  # written, not yet accepted
        self._moving, self._movable = 0, list[tuple[int, int]]()  # a part, and what was not yet moved, the last first
        self._claim, name = claim(folder)
        self._count = 0  # of logs
        try:
            self._open(*self._continued(name))
            try:
                self._claim.sweep({part.name for part in self.index.parts.values()})
            except BaseException:
                self.close()
                raise
        except OSError as error:
            if self.holds():
                raise
            raise LostError from error  # a process with a higher claim has removed what was to be read

    def holds(self) -> bool:
        """Whether no other process has claimed the lane."""
        return self._claim.holds()

    def write(self, frames: Sequence[Frame]) -> None:
        """Append frames to the log; they are not in the index until they are accepted."""
        data, at = memoryview(b"".join(frame.encode() for frame in frames)), 0
        self._pending, self._is_synced = frames, False
        self._file.seek(self._end)
        while at < len(data):
            at += self._file.write(data[at:])

    def accept(self) -> None:
        """Take the frames that were written into the index."""
        for frame in self._pending:
            self.index.apply(frame, self._end)
            self._end += frame.size
        self._pending = ()

    def roll_back(self) -> None:
        """Remove the frames that were written from the log."""
        self._pending, self._is_synced = (), False
        self._file.truncate(self._end)

    def sync(self) -> None:
        """Wait until the log is on the disk."""
        if not self._is_synced:
            try:
                os.fsync(self._file.fileno())
            except OSError:
                self.is_doubtful = True
                raise
            self._is_synced = True

    def remove_dead(self) -> None:
        """Remove the parts that have nothing in use, after the log is on the disk and the claim was seen."""
        for file in self.index.dead():
            with suppress(OSError):  # it is tried again
                (self.folder / self.index.parts[file].name).unlink(missing_ok=True)
                del self.index.parts[file]

    @property
    def is_long(self) -> bool:
        """Whether the log should be followed by another one."""
        return self._end > max(LOG_BYTES, INDEX_SHARE * self._begin)

    def follow(self) -> None:
        """Begin another log, and make the present one a part. If this fails, it is unknown which one counts."""
        self.sync()
        file = self._file
        self._open(self.index.begin(Part(self._path.name, self._end)))
        file.close()
        if not self.holds():
            raise LostError
        self.remove_dead()

    @property
    def waste(self) -> int:
        """Bytes of the lane that should be removed, if this is positive."""
        if not self.index.parts:
            return 0
        size = self._end + sum(part.size for part in self.index.parts.values())
        return size - MAX_USE * sum(self.index.live.values()) - SLACK_BYTES

    def movable(self) -> list[Frame]:
        """Return some of the frames in use of the part with the least in use, to be written again."""
        live, parts = self.index.live, self.index.parts
        if not self._movable or self._moving not in parts:
            used = [file for file in parts if live.get(file)]
            self._moving = min(used, key=lambda file: live[file] / parts[file].size, default=0)
            self._movable = self.index.frames_in(self._moving)[::-1] if used else []
        taken, size = list[tuple[int, int]](), 0
        while self._movable and size < MOVED_BYTES:
            taken.append((self._moving << OFFSET_BITS | self._movable[-1][0], self._movable[-1][1]))
            size += self._movable.pop()[1]
        frames = self._read(taken)
        return [frame for frame, (place, _) in zip(frames, taken, strict=True) if self.index.place(frame) == place]

    def load(self, stream: int) -> Saved | None:
        """Return what is needed to resume a stream."""
        entry = self.index.streams.get(stream)
        if entry is None:
            return None
        self.loaded.add(stream)
        snapshot = [(entry.snapshot, entry.snapshot_size)] if entry.snapshot_size else []
        frames = self._read([*snapshot, *zip(entry.rows, entry.row_sizes, strict=True)])
        rows = [LogRow(stream, frame.number, *unpack(frame.payload)) for frame in frames[len(snapshot) :]]
        return Saved(snapshot_of(frames[0]) if snapshot else None, rows)

    def history(self, stream: int) -> list[Segment]:
        """Return the segments of a stream."""
        entry = self.index.streams.get(stream)
        if entry is None:
            return []
        # One that begins at the snapshot was written with another snapshot, which was torn.
        places = [(part.place, part.size) for part in entry.segments if part.number < entry.number]
        return [segment_of(frame) for frame in self._read(places)]

    def replacing(self, snapshot: Snapshot, kept: Kept) -> list[Frame]:
        """Return the frames of a snapshot, and of the segment that keeps the rows before it."""
        entry = self.index.streams[snapshot.stream]
        if snapshot.number < entry.number:
            raise ValueError(f"snapshot.number={snapshot.number} is before that of the last snapshot, {entry.number}")
        frames = list[Frame]()
        starts = [(segment.number, segment.tokens) for segment in entry.segments if segment.number < entry.number]
        if entry.rows and any(kept):
            saved = self.load(snapshot.stream)
            assert saved is not None
            before, records = saved.snapshot, [row.record for row in saved.rows if row.number <= snapshot.number]
            tokens, memory = (0, None) if before is None else (before.tokens, before.memory)
            frames.append(segment_frame(snapshot.stream, Segment(entry.number, tokens, memory, records)))
            starts.append((entry.number, tokens))
        needed = kept.needed(starts, snapshot.number, snapshot.tokens)
        first = starts[len(starts) - needed][0] if needed else snapshot.number
        return [*frames, snapshot_frame(snapshot, first)]

    def close(self) -> None:
        """Close the log. The claim stays: its epoch tells the next one that lower ones are over."""
        self._file.close()

    def _continued(self, name: str | None) -> tuple[Frame, bytes]:
        """Return what the first log begins with: what the lane has, according to the log of the process before."""
        index, copied = Index(), b""
        if name is not None:
            data = (self.folder / name).read_bytes()
            index, end = Index.read(data)
            if end < len(data):
                log.warning("the end of a log was torn", extra={"fields": {"log": name, "bytes": len(data) - end}})
            copied = b"".join(data[offset : offset + size] for offset, size in index.frames_in(index.file))
        return index.begin(), copied

    def _open(self, begin: Frame, copied: bytes = b"") -> None:
        """Begin a log with its first frame and those that are copied to it, and read the index from it."""
        self._count += 1
        self._path = self._claim.log(self._count)
        data = begin.encode() + copied
        write_log(self._path, data)
        self.index, self._end = Index.read(data)
        self._begin, self._is_synced = begin.size, True
        self._file = self._path.open("r+b", buffering=0)

    def _read(self, places: Sequence[tuple[int, int]]) -> list[Frame]:
        """Return the frames at places of given sizes."""
        frames = dict[tuple[int, int], Frame]()
        for file in {place >> OFFSET_BITS for place, _ in places}:
            is_newest = file == self.index.file
            path = self._path if is_newest else self.folder / self.index.parts[file].name
            with nullcontext(self._file) if is_newest else path.open("rb", buffering=0) as opened:
                for place, size in places:
                    if place >> OFFSET_BITS == file:
                        opened.seek(place & ((1 << OFFSET_BITS) - 1))
                        frame = decode(opened.read(size))
                        if frame is None:
                            raise OSError(f"{path} is damaged")
                        frames[place, size] = frame
        return [frames[place] for place in places]


def row_frame(row: LogRow) -> Frame:
    """Return the frame of a row."""
    return Frame(Kind.ROW, row.stream, row.number, pack((row.record, row.answer)))
