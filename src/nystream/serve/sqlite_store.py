"""The streams of a service in one SQLite file.

The file is in WAL mode: a commit appends to a second file, whose checksums tell a torn commit from a complete one, so
that what a crash interrupts is as if it had not begun. One process has the file at a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
    stream INTEGER NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL, answer BLOB NOT NULL,
    PRIMARY KEY (stream, number)
) WITHOUT ROWID;
"""
STREAM = """
SELECT id, owner, key, max(
    coalesce((SELECT number FROM snapshots WHERE stream = id), 0),
    coalesce((SELECT max(number) FROM log WHERE stream = id), 0)
) FROM streams
"""


class SqliteStore:
    """Streams in a SQLite file; only one thread may use it at a time.

    Args:
        path: The file; None for a temporary one that is removed when the store is closed.
        model: What identifies the model and its reader. A file of another model is refused.
    """

    def __init__(self, path: Path | None, model: str) -> None:
        self._name = "the temporary store" if path is None else str(path)
        try:
            self._db = sqlite3.connect("" if path is None else path, isolation_level=None, check_same_thread=False)
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # a second service would take the same records
            if path is not None:
                self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("BEGIN IMMEDIATE")
            self._check(model)
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            in_use = "locked" in str(error)
            raise OSError(
                f"store={self._name} "
                + ("is in use by another process; give another file" if in_use else f"cannot be opened: {error}")
            ) from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"store={self._name} is not a file of streams: {error}") from error

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
                opened.append((StoredStream(*row), is_new))
        return opened

    def find(self, owner: str, key: str) -> StoredStream | None:
        with self._errors():
            row = self._db.execute(f"{STREAM} WHERE owner = ? AND key = ?", (owner, key)).fetchone()
        return None if row is None else StoredStream(*row)

    def streams(self, owner: str, after: str, limit: int) -> list[StoredStream]:
        chosen = f"{STREAM} WHERE owner = ? AND key > ? ORDER BY key LIMIT ?"
        with self._errors():
            return [StoredStream(*row) for row in self._db.execute(chosen, (owner, after, limit))]

    def count(self, owner: str) -> int:
        with self._errors():
            (count,) = self._db.execute("SELECT count(*) FROM streams WHERE owner = ?", (owner,)).fetchone()
        return int(count)

    def load(self, stream: int) -> Saved:
        with self._errors():
            chosen = "SELECT stream, number, state, memory, answers FROM snapshots WHERE stream = ?"
            row = self._db.execute(chosen, (stream,)).fetchone()
            rows = self._db.execute(
                "SELECT stream, number, record, answer FROM log WHERE stream = ? AND number > ? ORDER BY number",
                (stream, 0 if row is None else row[1]),
            ).fetchall()
        snapshot = None
        if row is not None:
            answers = [(number, answer) for number, answer in unpack(row[4])]
            snapshot = Snapshot(row[0], row[1], row[2], json.loads(row[3]), answers)
        return Saved(snapshot, [LogRow(*row) for row in rows])

    def append(self, rows: Iterable[LogRow]) -> None:
        with self._transaction():
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)

    def save(self, snapshots: Iterable[Snapshot]) -> None:
        # Not lost if it is lost: the log still has the records. The next commit of the log brings it to the disk.
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._transaction():
                for stream, number, state, memory, answers in snapshots:
                    self._db.execute(
                        "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)",
                        (stream, number, state, json.dumps(memory), pack(list(answers))),
                    )
                    self._db.execute("DELETE FROM log WHERE stream = ? AND number <= ?", (stream, number))
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def delete(self, stream: int) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM log WHERE stream = ?", (stream,))
            self._db.execute("DELETE FROM snapshots WHERE stream = ?", (stream,))
            self._db.execute("DELETE FROM streams WHERE id = ?", (stream,))

    def close(self) -> None:
        self._db.close()

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
