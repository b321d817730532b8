"""Who owns a lane of a shared folder: a process whose claim is there.

No lock could do this: a process that is paused would hold it. So a process takes a lane from its owner at any time, and
the owner finds out before it acknowledges anything. It needs a folder in which creating, removing and renaming files
are atomic, and in which a name that is opened is looked up anew, which NFS does too (its "close-to-open" consistency;
the mount option `nocto` turns that off).

A claim is an empty file, EPOCH-TOKEN.claim; the token is random, so that no two claims have the same name. To claim a
lane is

1. to create a claim, with an epoch above that of all claims and logs in the folder,
2. to list the folder, and to withdraw the claim if another claim or a log has the same epoch or a higher one,
3. to remove the claims of lower epochs,
4. to list the folder, to read the log of the highest epoch (`EPOCH-TOKEN-COUNT.log`, and of these the highest count),
   and to withdraw if it is not lower than one's own,
5. to write what one has read to a log of one's own under a temporary name, and to rename it once it is on the disk,
6. to see whether one's claim is still there; otherwise the lane is lost.

Then one owns the lane, and may append to the log. What was appended is acknowledged if, once it is on the disk, one's
claim is still there.

Nothing acknowledged is lost. Let A and B be claims that have passed step 2, and A < B.

- B was created after A listed the folder: otherwise A had seen it, or the claim above B that has removed it, and so on
  up to the highest claim, which nobody has removed. So B sees A in step 2 and removes it in step 3, unless another
  claim has removed it by then, which is between A and B, because B would have withdrawn for a higher one.
- So all that A acknowledges was on the disk before B's step 4: A appends, then sees its claim; the claim is removed
  later than that; B lists and reads later still.
- B reads A's log, or that of a claim C between A and B, which is complete, since logs are renamed when they are. The
  same holds for A and C: C has read what A has acknowledged, by induction over the claims between A and B.
- A log is removed only by the owner of a higher claim, whose own log is complete by then.

What A has appended but not acknowledged, B may have read or not. The record is sent again, and its number says whether
it was taken. Whoever dies on the way leaves a claim without a log, a temporary file or a complete log that no one has
acknowledged anything in; the next claim goes past them all. What is in the folder when the owner of a claim, with its
log complete, sees that its claim is still there, of lower epochs and not in use, can be removed: nobody above has been
there yet, and nobody below can acknowledge anything.
"""

from __future__ import annotations

import errno
import os
import random
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nystream.files import sync

CLAIM, LOG, PARTIAL = ".claim", ".log", ".log.tmp"
# Other names are not ours: NFS, for one, renames removed files that are still open.
NAME = re.compile(r"(\d{10,})-[0-9a-f]{16}(?:-(\d{6,}))?(\.claim|\.log|\.log\.tmp)")
TRIES = 20
PAUSE_SECONDS = 0.005  # at most, times the number of tries


class LostError(Exception):
    """Another process has claimed the lane."""


class Claim(NamedTuple):
    """A claim on the lane of a folder."""

    folder: Path
    epoch: int
    token: str

    @property
    def path(self) -> Path:
        """The file that stands for it."""
        return self.folder / f"{self.epoch:010}-{self.token}{CLAIM}"

    def log(self, count: int) -> Path:
        """Return the path of its log number `count`."""
        return self.folder / f"{self.epoch:010}-{self.token}-{count:06}{LOG}"

    def holds(self) -> bool:
        """Whether no other process has claimed the lane."""
        try:
            os.close(os.open(self.path, os.O_RDONLY))  # not `stat`: on NFS it may answer from a cache
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                return False
            raise
        return True

    def sweep(self, used: set[str]) -> None:
        """Remove what lower epochs have left, except for files in use; LostError if the claim is not there."""
        old = [name for name in names(self.folder) if _epoch(name) < self.epoch and name not in used]
        if not self.holds():  # only now: what a higher epoch uses came later
            raise LostError
        for name in old:
            (self.folder / name).unlink(missing_ok=True)


def claim(folder: Path) -> tuple[Claim, str | None]:
    """Claim the lane of a folder; return the claim and the name of the log to be read, if there is one."""
    for tried in range(TRIES):
        epoch = 1 + max(map(_epoch, names(folder)), default=0)
        ours = Claim(folder, epoch, secrets.token_hex(8))
        os.close(os.open(ours.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        others = names(folder) - {ours.path.name}
        if all(_epoch(name) < epoch for name in others):
            for name in others:
                if name.endswith(CLAIM):
                    (folder / name).unlink(missing_ok=True)
            log = newest_log(folder)
            if log is None or _epoch(log) < epoch:
                return ours, log
        with suppress(FileNotFoundError):
            ours.path.unlink()
        time.sleep(random.random() * PAUSE_SECONDS * tried)
    raise OSError(errno.EBUSY, f"{folder} is being claimed by other processes")


def newest_log(folder: Path) -> str | None:
    """Return the name of the newest complete log of a lane; None if there is none."""
    return max((name for name in names(folder) if name.endswith(LOG)), key=_order, default=None)


def write_log(path: Path, data: bytes) -> None:
    """Write a log that is complete, and on the disk, when it has its name."""
    partial = path.with_suffix(PARTIAL)
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        sync(path.parent, os.O_RDONLY)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def names(folder: Path) -> set[str]:
    """Return the names in the folder of a lane."""
    return {name for name in os.listdir(folder) if NAME.fullmatch(name)}


def _epoch(name: str) -> int:
    return _order(name)[0]


def _order(name: str) -> tuple[int, int]:
    match = NAME.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2] or 0)
