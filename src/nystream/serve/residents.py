"""The streams of a service that are in memory: loading them from the store, writing them out, making room."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from nystream.live import Sessions
from nystream.serve.failures import Failures
from nystream.serve.metrics import Metrics
from nystream.serve.migration import Start, reader_of
from nystream.serve.protocol import RequestError, unpack
from nystream.serve.settings import Settings
from nystream.serve.stores.seals import unsealed, unsealed_answer
from nystream.serve.stores.store import Saved, Snapshot, Store, StoredStream, StoreError

MIN_IDLE_SECONDS = 1.0  # before a stream may have to make room: streams in use would be loaded again at once
MAX_LOGGED = 1024  # records in a stream's log when a snapshot is written: bounds the replay
MIN_LOGGED_BYTES = 4096  # in a stream's log when a snapshot is written, however small that is
RECORDS_PER_SNAPSHOT = 32  # of a batch: bounds how much longer snapshots make it
SNAPSHOT_RECORDS = 128  # between two snapshots if there is no log
MAX_BEHIND = 2  # if snapshots cannot be written, a stream without a log takes in as many times the usual records
REPLAYED_TOGETHER = 512  # records, of several streams
SNAPSHOT_COST = 8  # records whose replay takes the time in which a snapshot is read
ROOM = 64  # streams for which room is made at a time
GOLDEN = 0.6180339887498949  # multiples of it are spread evenly modulo one


class StreamName(NamedTuple):
    """Keys of different owners are different streams."""

    owner: str
    key: str


class Resident:
    """A stream in memory; its session has its id as the key.

    Attributes:
        last: Number of the last record taken.
        exact_after: Tokens after which its answers are exact, if it was continued by another model.
        answers: Numbers and sealed answers of the last records, oldest first.
        records, bytes: What was taken in since the last snapshot.
        used: When it was last pushed to.
    """

    def __init__(self, stream: StoredStream, keep_answers: int) -> None:
        self.id, self.name = stream.id, StreamName(stream.owner, stream.key)
        self.last = self.exact_after = 0
        self.answers: deque[tuple[int, bytes]] = deque(maxlen=keep_answers)
        self.bytes = self.records = 0
        self.used = time.monotonic()
        # The first snapshots of streams that start together are not due together.
        self.share = 0.5 + (stream.id * GOLDEN) % 1 / 2

    def add(self, number: int, answer: bytes, size: int) -> None:
        """Note a record that was taken in, with the bytes that it takes in the log."""
        self.last = number
        self.answers.append((number, answer))
        self.records += 1
        self.bytes += size

    def answer(self, number: int) -> tuple[bytes, bytes] | None:
        """Return the digest of a record that was taken in and its packed answer; None if it is too old."""
        place = len(self.answers) - 1 - (self.last - number)
        return unsealed_answer(self.answers[place][1], number) if place >= 0 else None


class Residents:
    """The streams in memory, least recently used first.

    Args:
        sessions: Takes in their records.
        store: Has the others.
        model: What identifies the model of the sessions in the store.
        settings: Those of the service.
        metrics: Counts what is loaded and written out.
    """

    def __init__(self, sessions: Sessions, store: Store, model: str, settings: Settings, metrics: Metrics) -> None:
        self.sessions, self._store, self._settings, self._metrics = sessions, store, settings, metrics
        self._model = model
        self._residents: OrderedDict[StreamName, Resident] = OrderedDict()
        self._due: dict[StreamName, None] = {}  # streams whose snapshots are due, longest first
        self._snapshot_bytes = sessions.bytes_per_stream
        self._new_bytes = 0  # of the log, since snapshots were last written
        self._cannot_write = False  # snapshots
        self.failures = Failures()

    def __len__(self) -> int:
        return len(self._residents)

    def __contains__(self, name: object) -> bool:
        return name in self._residents

    def __iter__(self) -> Iterator[StreamName]:
        return iter(self._residents)

    @property
    def most(self) -> int:
        """Number of streams that may be in memory."""
        return self._settings.max_streams

    def get(self, name: StreamName) -> Resident | None:
        """Return a stream if it is in memory."""
        return self._residents.get(name)

    def use(self, names: Collection[StreamName]) -> dict[StreamName, Resident | RequestError]:
        """Return streams for use, loaded from the store if needed, or why they cannot be used."""
        ready: dict[StreamName, Resident | RequestError] = {}
        absent = list[StreamName]()
        for name in names:
            resident = self.touch(name)
            if resident is None:
                absent.append(name)
            else:
                ready[name] = self._behind() if self._cannot_write and self._is_behind(resident) else resident
        if absent:
            ready |= self.load(absent)
        return ready

    def touch(self, name: StreamName) -> Resident | None:
        """Return a stream if it is in memory, where it then stays for a while."""
        resident = self._residents.get(name)
        if resident is not None:
            resident.used = time.monotonic()
            self._residents.move_to_end(name)
        return resident

    def _is_behind(self, resident: Resident) -> bool:
        """Whether a crash would lose more records of a stream than it may."""
        usual = self._settings.snapshot_every or SNAPSHOT_RECORDS
        return self._settings.durability == "snapshot" and resident.records >= MAX_BEHIND * usual

    def _behind(self) -> RequestError:
        self._metrics.refused.labels("store_failed").inc()
        return RequestError("store_failed", "snapshots cannot be written now; nothing was taken in", retry_after=1)

    def note(self, resident: Resident, size: int) -> None:
        """Plan a snapshot of a stream that has taken in a record of so many bytes in the log, if it is due."""
        self._new_bytes += size
        durability, every = self._settings.durability, self._settings.snapshot_every
        if durability == "none":
            return
        if every is not None or durability == "snapshot":
            is_due = resident.records >= resident.share * (every or SNAPSHOT_RECORDS)
        else:  # the log takes as much space as the snapshot that replaces it
            is_due = resident.bytes >= resident.share * self._due_bytes or resident.records >= MAX_LOGGED
        if is_due:
            self._due[resident.name] = None

    @property
    def _due_bytes(self) -> int:
        return max(self._snapshot_bytes, MIN_LOGGED_BYTES)

    def write_due(self, records: int) -> None:
        """Write snapshots that are due, after a batch of so many records. If that fails, they stay due.

        There may be more that are due: about as many bytes are written as the batch has added to the log.
        """
        limit = 1 + max(records // RECORDS_PER_SNAPSHOT, self._new_bytes // self._due_bytes)
        self._new_bytes = 0
        names = list(islice(self._due, limit))
        if names:
            try:
                self.write(self._residents[name] for name in names)
            except StoreError as error:
                self.failures.note("snapshots could not be written", error)

    def write_overdue(self) -> None:
        """Write a snapshot of a stream that keeps the log from being trimmed, even if it has to be loaded for that."""
        stream = self._store.overdue() if self._settings.durability == "log" else None
        if stream is None:
            return
        name = StreamName(stream.owner, stream.key)
        was_resident = name in self._residents
        resident = self._residents.get(name) or self.load([name])[name]
        if isinstance(resident, Resident):
            self.write([resident])
            if not was_resident:
                self.drop(name)

    def write(self, residents: Iterable[Resident]) -> None:
        """Write snapshots of streams to the store."""
        residents = list(residents)
        if not residents:
            return
        snapshots = [self._snapshot(resident) for resident in residents]
        self._cannot_write = True
        moved = self._store.save(snapshots)
        self._cannot_write = False
        self._metrics.snapshots.inc(len(snapshots) - len(moved))
        for resident in residents:
            resident.bytes = resident.records = 0
            resident.share = 1.0
            self._due.pop(resident.name, None)
            if resident.id in moved:
                self.drop(resident.name)

    def rewrite(self, streams: Sequence[StoredStream]) -> dict[int, int]:
        """Replace snapshots of another model; return how many answers of each stream will be inexact.

        Streams that cannot be restored are logged and left as they are.
        """
        loaded = self.load([StreamName(stream.owner, stream.key) for stream in streams])
        residents = [resident for resident in loaded.values() if isinstance(resident, Resident)]
        self.write(residents)
        counts = {resident.id: self.inexact(resident) for resident in residents}
        for resident in residents:
            self.drop(resident.name)
        return counts

    def inexact(self, resident: Resident) -> int:
        """Return how many answers of a stream will be inexact, because it was continued by another model."""
        if not resident.exact_after:
            return 0
        tokens = self.sessions.tokens(resident.id) if resident.id in self.sessions else 0
        return max(0, resident.exact_after - tokens)

    def drop(self, name: StreamName) -> None:
        """Remove a stream from memory as it is."""
        resident = self._residents.pop(name, None)
        self._due.pop(name, None)
        if resident is not None and resident.id in self.sessions:
            self.sessions.close(resident.id)

    def evict_idle(self) -> None:
        """Write out and remove the streams that were not used for long."""
        before = time.monotonic() - self._settings.idle_seconds
        idle = []
        for resident in self._residents.values():  # least recently used first
            if resident.used > before:
                break
            idle.append(resident)
        self._evict(idle)

    def write_all(self) -> None:
        """Write out all streams that would otherwise be lost."""
        if self._settings.durability == "snapshot":
            self.write(resident for resident in self._residents.values() if resident.records)

    def _evict(self, residents: Sequence[Resident]) -> None:
        try:
            if self._settings.durability != "log":  # the log has it all
                self.write(resident for resident in residents if resident.records)
        except StoreError as error:
            self.failures.note("idle streams could not be written out", error)
            return
        for resident in residents:
            self.drop(resident.name)
        self._metrics.evictions.inc(len(residents))

    def _make_room(self, count: int) -> int:
        """Evict streams until there is room for `count` more, if possible; return for how many there is."""
        needed = len(self) + count - self._settings.max_streams
        before, idle = time.monotonic() - MIN_IDLE_SECONDS, list[Resident]()
        for resident in self._residents.values():
            if len(idle) >= needed or resident.used > before:
                break
            idle.append(resident)
        if idle:
            self._evict(idle)
        return self._settings.max_streams - len(self)

    def load(
        self, names: Collection[StreamName], seconds: float = math.inf
    ) -> dict[StreamName, Resident | RequestError]:
        """Restore streams from the store, or say why they cannot be used: all of them, or as many as the time allows.

        Args:
            names: Streams that are not in memory.
            seconds: After which no more streams are begun.
        """
        ready: dict[StreamName, Resident | RequestError] = {}
        together, size = list[tuple[StoredStream, Saved]](), 0
        until, room = time.monotonic() + seconds, 0
        full = RequestError("overloaded", f"max_streams={self._settings.max_streams} streams are in use", retry_after=1)
        for name in names:
            if not room:
                room = max(0, self._make_room(min(len(names) - len(ready), ROOM)) - len(together))
            found = self._stored(name) if room else full
            if isinstance(found, RequestError):
                ready[name] = found
                continue
            room -= 1
            together.append(found)
            size += SNAPSHOT_COST + len(found[1].rows)
            if size >= REPLAYED_TOGETHER:
                ready |= self._restored(together)
                together, size = [], 0
                if time.monotonic() > until:
                    break
        return ready | self._restored(together)

    def _stored(self, name: StreamName) -> tuple[StoredStream, Saved] | RequestError:
        """What the store has of a stream."""
        stream = self._store.find(*name)
        if stream is None:
            return unknown(name)
        try:
            saved = self._store.load(stream.id)
        except StoreError:
            raise
        except Exception as error:
            return self._damaged(name, error)
        return unknown(name) if saved is None else (stream, saved)

    def _restored(self, stored: Sequence[tuple[StoredStream, Saved]]) -> dict[StreamName, Resident | RequestError]:
        """Restore streams, or say which of them cannot be."""
        ready: dict[StreamName, Resident | RequestError] = {}
        try:
            return self._restore(stored)
        except StoreError:
            raise
        except Exception:  # one of them cannot be restored: find out which
            for stream, saved in stored:
                try:
                    ready |= self._restore([(stream, saved)])
                except StoreError:
                    raise
                except Exception as error:
                    name = StreamName(stream.owner, stream.key)
                    ready[name] = self._damaged(name, error)
            return ready

    def _damaged(self, name: StreamName, error: Exception) -> RequestError:
        self.failures.note("a stream cannot be restored", error, key=name.key)
        return RequestError("damaged", f"key {name.key!r} cannot be restored: {error}")

    def _restore(self, stored: Sequence[tuple[StoredStream, Saved]]) -> dict[StreamName, Resident | RequestError]:
        """Restore streams from their snapshots and replay their logs: all of them, or none and raise."""
        for _, saved in stored:
            require_whole(saved)
        snapshots = [saved.snapshot for _, saved in stored if saved.snapshot is not None]
        ours = [snapshot for snapshot in snapshots if snapshot.model == self._model]
        rows = [row for _, saved in stored for row in saved.rows]
        try:
            self.sessions.restore_many(
                {snapshot.stream: (snapshot.state, snapshot.memory["memory"]) for snapshot in ours if snapshot.state}
            )
            starts = {
                snapshot.stream: Start.of(snapshot, self._store.history(snapshot.stream), self._model, self.sessions)
                for snapshot in snapshots
                if snapshot.model != self._model
            }
            earlier = [(stream, record) for stream, start in starts.items() for record in start.records]
            records = [*earlier, *((row.stream, unsealed(row.record, row.number)) for row in rows)]
            if records:
                self.sessions.take_many([stream for stream, _ in records], [unpack(record) for _, record in records])
        except BaseException:
            for stream, _ in stored:
                if stream.id in self.sessions:
                    self.sessions.close(stream.id)
            raise
        ready: dict[StreamName, Resident | RequestError] = {}
        for stream, saved in stored:
            resident = Resident(stream, self._settings.keep_answers)
            if saved.snapshot is not None:
                resident.last, resident.exact_after = saved.snapshot.number, saved.snapshot.exact_after
                resident.answers.extend(saved.snapshot.answers)
            if stream.id in starts:
                resident.exact_after = starts[stream.id].exact_after
            for row in saved.rows:
                resident.add(row.number, row.answer, len(row.record) + len(row.answer))
            self._residents[resident.name] = ready[resident.name] = resident
        self._metrics.restored.inc(len(stored))
        self._metrics.replayed.inc(len(records))
        return ready

    def _snapshot(self, resident: Resident) -> Snapshot:
        state, memory, tokens = None, dict[str, Any](), 0
        if resident.id in self.sessions:
            state, memory = self.sessions.snapshot(resident.id)
            tokens = self.sessions.tokens(resident.id)
            self._snapshot_bytes = len(state)
        answers, model = list(resident.answers), self._model
        remembered = {"reader": reader_of(model), "memory": memory}  # another reader must not use it
        return Snapshot(resident.id, resident.last, tokens, state, remembered, answers, model, resident.exact_after)


def require_whole(saved: Saved) -> None:
    """Raise ValueError if records or answers of a stream are missing in the store, or have changed there."""
    last, answers = (0, ()) if saved.snapshot is None else (saved.snapshot.number, saved.snapshot.answers)
    kept = [number for number, _ in answers]
    logged = [row.number for row in saved.rows]
    if kept != list(range(last - len(kept) + 1, last + 1)) or logged != list(range(last + 1, last + len(logged) + 1)):
        raise ValueError(f"records or answers are missing before or after number {last}")
    for number, answer in (*answers, *((row.number, row.answer) for row in saved.rows)):
        unsealed(answer, number)


def unknown(name: StreamName) -> RequestError:
    """Return the error if there is no such stream."""
    return RequestError("unknown_stream", f"key {name.key!r} is not open; open it first")
