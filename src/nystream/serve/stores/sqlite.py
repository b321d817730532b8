"""The streams of a service in one SQLite file.

The file is in WAL mode: a commit appends to a second file, whose checksums tell a torn commit from a complete one, so
that what a crash interrupts is as if it had not begun. One process has the file at a time.

Rows of the log are appended in the order in which they come, whatever their streams, so that a commit writes few pages.
Which of them belong to a stream is known in memory. Only the oldest rows are deleted, once no stream needs them. What
is kept of them for another model is copied to a segment when a snapshot is written.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nystream.serve.protocol import pack, unpack
from nystream.serve.stores.checkpoints import WAL_BYTES, Checkpoints
from nystream.serve.stores.store import Kept, LogRow, Saved, Segment, Snapshot, StoredStream, StoreError, other_model

FORMAT = "nystream-streams-2"
BUSY_MS = 2000
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (owner, key)
);
CREATE TABLE snapshots (
    stream INTEGER PRIMARY KEY, number INTEGER NOT NULL, tokens INTEGER NOT NULL, state BLOB, memory TEXT NOT NULL,
    answers BLOB NOT NULL, model TEXT NOT NULL, exact_after INTEGER NOT NULL
);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, number INTEGER NOT NULL, tokens INTEGER NOT NULL, memory TEXT,
    records BLOB NOT NULL, UNIQUE (stream, number)
);
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL,
    answer BLOB NOT NULL
);
"""
STREAM = "SELECT id, owner, key, coalesce((SELECT number FROM snapshots WHERE stream = id), 0) FROM streams"
NEEDED = """
SELECT log.id, log.stream FROM log JOIN streams ON streams.id = log.stream
LEFT JOIN snapshots ON snapshots.stream = log.stream
WHERE log.number > coalesce(snapshots.number, 0) ORDER BY log.id
"""
NOTHING = Kept(0, 0)
MAX_SPAN, MIN_SPAN = 3, 8192  # rows of the log for each that is needed, and at least

log = logging.getLogger(__name__)


class SqliteStore:
    """Streams in a SQLite file; only one thread may use it at a time.

    Args:
        path: The file; None for a temporary one that is removed when the store is closed.
        model: What identifies the model and its reader. A file of another model is refused.
        kept: How much of each stream is kept before its snapshot.
        migrate: Accept a file of another model, which is from now on one of this model.
    """

    def __init__(self, path: Path | None, model: str, kept: Kept = NOTHING, migrate: bool = False) -> None:
        self._name = "the temporary store" if path is None else str(path)
        path = None if path is None else path.resolve()  # SQLite's other files and the lock are beside the file itself
        self._path, self._model, self._kept = path, model, kept
        self._lock = None if path is None else _locked(path, self._name)
        try:
            self._db = sqlite3.connect("" if path is None else path, isolation_level=None, check_same_thread=False)
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            if path is not None:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
                self._db.execute("PRAGMA wal_autocheckpoint = 0")  # see `Checkpoints`
            self._db.execute("BEGIN IMMEDIATE")
            self._check(migrate)
            self._db.execute("COMMIT")
            # By stream: the rows after its snapshot, whose numbers follow that of the snapshot. Streams are in order
            # of their first rows.
            self._rows: OrderedDict[int, array[int]] = OrderedDict()
            self._needed = 0  # rows in `_rows`
            self._counts: dict[str, int] = {}  # streams by owner, of owners that were asked for
            self._is_full = False  # the disk
            self._first = self._last = 0  # ids in the log
            for row, stream in self._db.execute(NEEDED):
                self._note(stream, row)
            chosen = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'log'"
            (self._last,) = self._db.execute(chosen).fetchone()
            chosen = "SELECT coalesce(min(id), ?) FROM log"
            (self._first,) = self._db.execute(chosen, (self._last + 1,)).fetchone()
        except BaseException as error:
            if self._lock is not None:
                self._lock.release()
            if isinstance(error, sqlite3.OperationalError):
                raise OSError(f"store={self._name} cannot be opened: {error}") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise ValueError(f"store={self._name} is not a file of streams: {error}") from error
            raise
        self._checkpoints = None if path is None else Checkpoints(path)
        try:
            self._make_space()  # the last process may have left much in the WAL
        except StoreError as error:
            log.warning("the WAL could not be moved", extra={"fields": {"error": str(error)}})

    def _check(self, migrate: bool) -> None:
        """Create the tables of a new file; raise ValueError if the file is not of this model."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            for statement in filter(str.strip, SCHEMA.split(";")):
                self._db.execute(statement)
            about = [("format", FORMAT), ("model", self._model)]
            self._db.executemany("INSERT INTO about VALUES (?, ?)", about)
        about = list(self._db.execute("SELECT name, value FROM about")) if not tables or "about" in tables else []
        known = dict(about)
        if known.get("format") != FORMAT:
            self._db.close()
            raise ValueError(f"store={self._name} is not a file of streams, or one of another version of nystream")
        if known.get("model") != self._model:
            if not migrate:
                self._db.close()
                raise other_model(self._name, known.get("model", ""), self._model)
            self._db.execute("UPDATE about SET value = ? WHERE name = 'model'", (self._model,))

    def open(self, streams: Sequence[tuple[str, str]]) -> list[tuple[StoredStream, bool]]:
        with self._transaction():
            opened = []
            for owner, key in streams:
                insert = "INSERT INTO streams (owner, key) VALUES (?, ?) ON CONFLICT DO NOTHING"
                is_new = self._db.execute(insert, (owner, key)).rowcount == 1
                (row,) = self._db.execute(f"{STREAM} WHERE owner = ? AND key = ?", (owner, key))
                opened.append((self._stream(row), is_new))
        for stream, is_new in opened:
            if stream.owner in self._counts:
                self._counts[stream.owner] += is_new
        return opened

    def find(self, owner: str, key: str) -> StoredStream | None:
        with self._errors():
            row = self._db.execute(f"{STREAM} WHERE owner = ? AND key = ?", (owner, key)).fetchone()
        return None if row is None else self._stream(row)

    def streams(self, owner: str, after: str, limit: int) -> list[StoredStream]:
        chosen = f"{STREAM} WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
        with self._errors():
            return [self._stream(row) for row in self._db.execute(chosen, (owner, after, limit))]

    def count(self, owner: str) -> int:
        if owner not in self._counts:
            with self._errors():
                (count,) = self._db.execute("SELECT count(*) FROM streams WHERE owner = ?", (owner,)).fetchone()
            self._counts[owner] = int(count)
        return self._counts[owner]

    def load(self, stream: int) -> Saved:
        with self._errors():
            try:
                row = self._db.execute("SELECT * FROM snapshots WHERE stream = ?", (stream,)).fetchone()
                chosen = "SELECT stream, number, record, answer FROM log WHERE id = ?"
                found = [self._db.execute(chosen, (id,)).fetchone() for id in self._rows.get(stream, ())]
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:  # a damaged page: other streams are on other pages
                raise ValueError(f"{self._name}: {error}") from error
        rows = [LogRow(*row) for row in found]
        if row is None:
            return Saved(None, rows)
        id, number, tokens, state, memory, answers, model, exact_after = row
        kept = [(number, answer) for number, answer in unpack(answers)]
        return Saved(Snapshot(id, number, tokens, state, json.loads(memory), kept, model, exact_after), rows)

    def owns(self, stream: int) -> bool:
        return True  # no other process has the file

    def history(self, stream: int) -> list[Segment]:
        chosen = "SELECT number, tokens, memory, records FROM segments WHERE stream = ? ORDER BY number"
        with self._errors():
            rows = self._db.execute(chosen, (stream,)).fetchall()
        return [
            Segment(number, tokens, None if memory is None else json.loads(memory), unpack(records))
            for number, tokens, memory, records in rows
        ]

    def append(self, rows: Iterable[LogRow]) -> set[int]:
        numbered = list(enumerate(rows, self._last + 1))
        with self._transaction():
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", [(id, *row) for id, row in numbered])
        for id, row in numbered:
            self._note(row.stream, id)
        self._last += len(numbered)
        return set()  # no other process has the file

    def save(self, snapshots: Iterable[Snapshot]) -> set[int]:
        snapshots = list(snapshots)
        saved = {snapshot.stream for snapshot in snapshots}
        first = next((rows[0] for stream, rows in self._rows.items() if stream not in saved), self._last + 1)
        if saved <= self._rows.keys():
            # Not waiting for the disk: the next commit of the log brings it there, and until then the log is enough.
            self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._transaction():
                for snapshot in snapshots:
                    self._keep(snapshot)
                    memory, answers = json.dumps(snapshot.memory), pack(list(snapshot.answers))
                    row = (*snapshot[:3], snapshot.state, memory, answers, snapshot.model, snapshot.exact_after)
                    self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                if first > self._first:
                    self._db.execute("DELETE FROM log WHERE id < ?", (first,))
        finally:
            self._db.execute("PRAGMA synchronous = FULL")
        self._first = max(first, self._first)
        for stream in saved:
            self._forget_rows(stream)
        return set()

    def _keep(self, snapshot: Snapshot) -> None:
        """Move the rows of a stream that its snapshot makes unnecessary to a segment, and delete those not needed."""
        stream, rows = snapshot.stream, self._rows.get(snapshot.stream)
        if rows and self._kept != NOTHING:
            chosen = "SELECT record FROM log WHERE id = ?"
            records = [self._db.execute(chosen, (id,)).fetchone()[0] for id in rows]
            before = self._db.execute("SELECT number, tokens, memory FROM snapshots WHERE stream = ?", (stream,))
            row = (stream, *(before.fetchone() or (0, 0, None)), pack(records))
            insert = "INSERT INTO segments (stream, number, tokens, memory, records) VALUES (?, ?, ?, ?, ?)"
            self._db.execute(insert, row)
        chosen = "SELECT number, tokens FROM segments WHERE stream = ? ORDER BY number"
        starts = self._db.execute(chosen, (stream,)).fetchall()
        needed = self._kept.needed(starts, snapshot.number, snapshot.tokens)
        if needed < len(starts):
            first = starts[len(starts) - needed][0] if needed else snapshot.number
            self._db.execute("DELETE FROM segments WHERE stream = ? AND number < ?", (stream, first))

    def delete(self, stream: int) -> None:
        with self._transaction():
            owner = self._db.execute("SELECT owner FROM streams WHERE id = ?", (stream,)).fetchone()
            for table, column in (("snapshots", "stream"), ("segments", "stream"), ("streams", "id")):
                self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (stream,))
        if owner is not None and owner[0] in self._counts:
            self._counts[owner[0]] -= 1
        self._forget_rows(stream)

    def overdue(self) -> StoredStream | None:
        if not self._needed or self._last - self._first <= MAX_SPAN * self._needed + MIN_SPAN:
            return None
        with self._errors():
            row = self._db.execute(f"{STREAM} WHERE id = ?", (next(iter(self._rows)),)).fetchone()
        return self._stream(row)

    def outdated(self, after: int, limit: int) -> list[StoredStream]:
        others = "SELECT stream FROM snapshots WHERE model != ? AND stream > ?"
        with self._errors():
            rows = self._db.execute(f"{STREAM} WHERE id IN ({others}) ORDER BY id LIMIT ?", (self._model, after, limit))
            return [self._stream(row) for row in rows]

    def size(self) -> int | None:
        if self._path is None:
            return None
        sizes = []
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return sum(sizes)

    def _stream(self, row: tuple[int, str, str, int]) -> StoredStream:
        id, owner, key, number = row
        return StoredStream(id, owner, key, number + len(self._rows.get(id, ())))

    def _note(self, stream: int, row: int) -> None:
        if stream not in self._rows:
            self._rows[stream] = array("q")
        self._rows[stream].append(row)
        self._needed += 1

    def _forget_rows(self, stream: int) -> None:
        self._needed -= len(self._rows.pop(stream, ()))

    def tidy(self) -> None:
        if self._checkpoints is not None:
            with self._errors():
                self._checkpoints.finish(self._db)
            if self._is_full:
                self._make_space()

    def _make_space(self) -> None:
        """Move the WAL into the file, where its pages overwrite others: a full disk may have room for that."""
        self._is_full = False
        if self._checkpoints is not None:
            with self._errors():
                self._checkpoints.move_now(self._db)

    def close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._commit()
            except BaseException:
                if self._db.in_transaction:  # some errors have rolled it back already
                    self._db.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self._is_full |= getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise StoreError(f"{self._name}: {error}") from error


def _locked(path: Path, name: str) -> FileLock:
    """Lock a store: two services would take the same records. The system releases the lock when the process ends."""
    if not path.parent.is_dir():  # the lock would create it
        raise FileNotFoundError(f"store={name}: its folder does not exist; create it first")
    lock = FileLock(path.with_name(f"{path.name}.lock"), thread_local=False)  # another thread will close the store
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(f"store={name} is in use by another process; give another file") from None
    except OSError as error:
        raise OSError(f"store={name} cannot be opened: {error}") from error
    return lock
