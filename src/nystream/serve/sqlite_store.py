"""The streams of a service in one SQLite file.

The file is in WAL mode: a commit appends to a second file, whose checksums tell a torn commit from a complete one, so
that what a crash interrupts is as if it had not begun. One process has the file at a time.

Rows of the log are appended in the order in which they come, whatever their streams, so that a commit writes few pages.
Which of them belong to a stream is known in memory. Only the oldest rows are deleted, once no stream needs them.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nystream.serve.checkpoints import WAL_BYTES, Checkpoints
from nystream.serve.protocol import pack, unpack
from nystream.serve.store import LogRow, Saved, Snapshot, StoredStream, StoreError

FORMAT = "nystream-streams-1"
BUSY_MS = 2000
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (owner, key)
);
CREATE TABLE snapshots (
    stream INTEGER PRIMARY KEY, number INTEGER NOT NULL, state BLOB, memory TEXT NOT NULL, answers BLOB NOT NULL
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
MAX_SPAN, MIN_SPAN = 3, 8192  # rows of the log for each that is needed, and at least


class SqliteStore:
    """Streams in a SQLite file; only one thread may use it at a time.

    Args:
        path: The file; None for a temporary one that is removed when the store is closed.
        model: What identifies the model and its reader. A file of another model is refused.
    """

    def __init__(self, path: Path | None, model: str) -> None:
        self._name = "the temporary store" if path is None else str(path)
        self._lock = None if path is None else _locked(path)
        try:
            self._db = sqlite3.connect("" if path is None else path, isolation_level=None, check_same_thread=False)
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            if path is not None:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
                self._db.execute("PRAGMA wal_autocheckpoint = 0")  # see `Checkpoints`
            self._db.execute("BEGIN IMMEDIATE")
            self._check(model)
            self._db.execute("COMMIT")
            # By stream: the rows after its snapshot, whose numbers follow that of the snapshot. Streams are in order
            # of their first rows.
            self._rows: OrderedDict[int, array[int]] = OrderedDict()
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

    def _check(self, model: str) -> None:
        """Create the tables of a new file; raise ValueError if the file is not of this model."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            for statement in filter(str.strip, SCHEMA.split(";")):
                self._db.execute(statement)
            about = [("format", FORMAT), ("model", model)]
            self._db.executemany("INSERT INTO about VALUES (?, ?)", about)
        about = list(self._db.execute("SELECT name, value FROM about")) if not tables or "about" in tables else []
        known = dict(about)
        if known.get("format") != FORMAT:
            self._db.close()
            raise ValueError(f"store={self._name} is not a file of streams, or one of another version of nystream")
        if known.get("model") != model:
            self._db.close()
            raise ValueError(
                f"store={self._name} has streams of another model ({known.get('model', ''):.8}… there, {model:.8}… "
                f"here); start the service with that model, or give another `store` for new streams"
            )

    def open(self, streams: Sequence[tuple[str, str]]) -> list[tuple[StoredStream, bool]]:
        with self._transaction():
            opened = []
            for owner, key in streams:
                insert = "INSERT INTO streams (owner, key) VALUES (?, ?) ON CONFLICT DO NOTHING"
                is_new = self._db.execute(insert, (owner, key)).rowcount == 1
                (row,) = self._db.execute(f"{STREAM} WHERE owner = ? AND key = ?", (owner, key))
                opened.append((self._stream(row), is_new))
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
        with self._errors():
            (count,) = self._db.execute("SELECT count(*) FROM streams WHERE owner = ?", (owner,)).fetchone()
        return int(count)

    def load(self, stream: int) -> Saved:
        with self._errors():
            chosen = "SELECT stream, number, state, memory, answers FROM snapshots WHERE stream = ?"
            row = self._db.execute(chosen, (stream,)).fetchone()
            chosen = "SELECT stream, number, record, answer FROM log WHERE id = ?"
            rows = [LogRow(*self._db.execute(chosen, (id,)).fetchone()) for id in self._rows.get(stream, ())]
        snapshot = None
        if row is not None:
            answers = [(number, answer) for number, answer in unpack(row[4])]
            snapshot = Snapshot(row[0], row[1], row[2], json.loads(row[3]), answers)
        return Saved(snapshot, rows)

    def append(self, rows: Iterable[LogRow]) -> None:
        numbered = list(enumerate(rows, self._last + 1))
        with self._transaction():
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", [(id, *row) for id, row in numbered])
        for id, row in numbered:
            self._note(row.stream, id)
        self._last += len(numbered)

    def save(self, snapshots: Iterable[Snapshot]) -> None:
        snapshots = list(snapshots)
        saved = {snapshot.stream for snapshot in snapshots}
        first = next((rows[0] for stream, rows in self._rows.items() if stream not in saved), self._last + 1)
        # Without waiting for the disk: the next commit of the log brings it there, and until then the log is enough.
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._transaction():
                for stream, number, state, memory, answers in snapshots:
                    self._db.execute(
                        "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)",
                        (stream, number, state, json.dumps(memory), pack(list(answers))),
                    )
                if first > self._first:
                    self._db.execute("DELETE FROM log WHERE id < ?", (first,))
        finally:
            self._db.execute("PRAGMA synchronous = FULL")
        self._first = max(first, self._first)
        for stream in saved:
            self._rows.pop(stream, None)

    def delete(self, stream: int) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM snapshots WHERE stream = ?", (stream,))
            self._db.execute("DELETE FROM streams WHERE id = ?", (stream,))
        self._rows.pop(stream, None)

    def overdue(self) -> StoredStream | None:
        needed = sum(map(len, self._rows.values())) if self._last - self._first > MIN_SPAN else 0
        if not needed or self._last - self._first <= MAX_SPAN * needed + MIN_SPAN:
            return None
        with self._errors():
            row = self._db.execute(f"{STREAM} WHERE id = ?", (next(iter(self._rows)),)).fetchone()
        return self._stream(row)

    def _stream(self, row: tuple[int, str, str, int]) -> StoredStream:
        id, owner, key, number = row
        return StoredStream(id, owner, key, number + len(self._rows.get(id, ())))

    def _note(self, stream: int, row: int) -> None:
        if stream not in self._rows:
            self._rows[stream] = array("q")
        self._rows[stream].append(row)

    def tidy(self) -> None:
        if self._checkpoints is not None:
            with self._errors():
                self._checkpoints.finish(self._db)

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
            raise StoreError(f"{self._name}: {error}") from error


def _locked(path: Path) -> FileLock:
    """Lock a store: two services would take the same records. The system releases the lock when the process ends."""
    if not path.resolve().parent.is_dir():  # the lock would create it
        raise FileNotFoundError(f"store={path}: its folder does not exist; create it first")
    lock = FileLock(path.with_name(f"{path.name}.lock"), thread_local=False)  # another thread will close the store
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(f"store={path} is in use by another process; give another file") from None
    except OSError as error:
        raise OSError(f"store={path} cannot be opened: {error}") from error
    return lock
