"""Moving the WAL of a SQLite file into the file itself, in the background of commits.

SQLite would do so within a commit, whose records would wait for it.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from pathlib import Path

WAL_BYTES = 16 << 20  # from which on it is moved, if the disk has room for as much
LOOK_SECONDS = 0.2
PASSES = 2  # the second one moves what came during the first, so that little is left

log = logging.getLogger(__name__)


class Checkpoints:
    """A thread that moves the WAL while another connection writes.

    Args:
        path: The database.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._wal = path, path.with_name(f"{path.name}-wal")
        self._ended, self._nearly_done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nystream-checkpoints", daemon=True)
        self._thread.start()

    def finish(self, writer: sqlite3.Connection) -> None:
        """Between two commits of the writer: move the little that is left, so that the WAL starts anew."""
        if self._nearly_done.is_set():
            writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._nearly_done.clear()

    @staticmethod
    def move_now(writer: sqlite3.Connection) -> None:
        """Between two commits of the writer: move all of the WAL and give its space back."""
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _is_large(self) -> bool:
        """Whether the WAL is to be moved; on a full disk it could not be, because the file itself may have to grow."""
        return self._wal.stat().st_size > min(WAL_BYTES, shutil.disk_usage(self._wal.parent).free)

    def _run(self) -> None:
        db, has_failed = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False), False
        while not self._ended.wait(LOOK_SECONDS):
            try:
                # The file keeps its size when the WAL starts anew: only SQLite knows how much of it is in use.
                if not self._nearly_done.is_set() and self._is_large():
                    for _ in range(PASSES):
                        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    self._nearly_done.set()
                has_failed = False
            except (sqlite3.Error, OSError) as error:  # a full disk, for example: the WAL stays as it is
                if not has_failed:
                    log.warning("the WAL could not be moved", extra={"fields": {"error": str(error)}})
                has_failed = True
        db.close()
