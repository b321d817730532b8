"""Atomic writes of files, and locks on folders.

A file is written in a working folder next to its destination, `NAME.1a2b3c4d.partial`, which the writer keeps locked.
The system releases the lock when the process ends, however it ends: an unlocked working folder was left by a process
that was killed, and the next write of the same file removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

LOCK = ".lock"
ABANDONED_SECONDS = 24 * 3600.0  # age at which a partial file is removed if locks are not supported
PARTIAL = re.compile(r"(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, even if the power fails: the old file stays until the new one is on the disk.

    `write` gets the path to write to; other files that it leaves in that folder are removed. The mode of the file is
    what `open(path, "w")` would give it: that of the file it replaces, or what the umask allows.
    """
    sweep(path)
    with working_folder(path) as folder:
        partial = folder / path.name
        partial.touch()
        mode = _mode(path if path.is_file() else partial)
        write(partial)
        sync(partial, os.O_RDWR)
        if _mode(partial) != mode:  # some libraries write a private file and rename it
            partial.chmod(mode)
        os.replace(partial, path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        sync(path.resolve().parent, os.O_RDONLY)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    replace(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def require_writable(name: str, path: Path) -> None:
    """Raise if a file cannot be written, before the work that makes its contents."""
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"{name}={path}: its folder does not exist; create it first")
    if os.path.isdir(path):  # Path.is_dir raises for some names
        raise IsADirectoryError(f"{name}={path} is a folder, but must be a file")
    if os.path.exists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK)):
        raise PermissionError(f"{name}={path} exists and is not a file that can be overwritten")
    try:
        with working_folder(path):
            pass
    except OSError as error:
        raise OSError(f"{name}={path} cannot be written: {error.strerror}") from error


def require_folder(name: str, folder: Path) -> None:
    """Create a folder, and raise if it cannot be written to, before the work that makes its contents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise NotADirectoryError(f"{name}={folder} is a file, but must be a folder") from error
    except OSError as error:
        raise OSError(f"{name}={folder} is not a folder that can be written to: {error.strerror}") from error


@contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """A temporary folder next to `path` to write it in, which no other process uses or removes."""
    while True:
        folder = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        folder.mkdir()
        with _locked(folder) as ours:
            if ours is False:  # swept by another process before it was locked
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def sweep(path: Path) -> None:
    """Remove partial files of `path` that killed processes left; those that are being written stay."""
    if not path.parent.is_dir():
        return
    for partial in list(path.parent.iterdir()):
        match = PARTIAL.fullmatch(partial.name)
        if match is not None and match[1] == path.name:
            _discard(partial)


def is_remnant(path: Path) -> bool:
    """Whether a name is that of a lock or a partial file; a folder with nothing else counts as empty."""
    return path.name == LOCK or PARTIAL.fullmatch(path.name) is not None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, which is created if needed; a second process gets an error at once.

    The system releases the lock when the process ends, even if it is killed; partial files that it left are removed. A
    folder that was created here is removed if it is empty at the end.
    """
    from filelock import FileLock, Timeout

    created = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(
            f"{folder} is in use by {_holder(path)}; wait until it ends, or give another folder"
        ) from None
    try:
        with suppress(OSError):  # some systems cannot write a locked file; it is only for the message
            path.write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        for partial in list(folder.rglob("*.partial")):  # of any file: nobody else is writing here
            if is_remnant(partial):
                _discard(partial)
        yield
    finally:
        with suppress(OSError):  # or remove it
            path.unlink()
        lock.release()
        with suppress(OSError):  # not empty
            for place in created:
                place.rmdir()


def _holder(path: Path) -> str:
    try:
        holder = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        holder = ""
    return f"process {holder}" if holder else "another process"


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Lock a folder: True if it is locked, False if another process has it or it is gone, None if this is unknown.

    Windows and some network disks cannot lock folders.
    """
    try:
        opened = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    except OSError:
        yield None
        return
    try:
        yield _lock(opened, folder)
    finally:
        os.close(opened)


def _lock(opened: int, folder: Path) -> bool | None:
    try:
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return folder.is_dir()  # False if it was removed between opening and locking


def _discard(partial: Path) -> None:
    """Remove a partial file, unless a live process is writing it."""
    if partial.is_dir():
        with _locked(partial) as ours:
            if ours or (ours is None and _abandoned(partial)):
                shutil.rmtree(partial, ignore_errors=True)
    elif _abandoned(partial):  # versions up to 0.1 wrote files, without a lock
        partial.unlink(missing_ok=True)


def _abandoned(partial: Path) -> bool:
    try:
        return time.time() - partial.stat().st_mtime > ABANDONED_SECONDS
    except FileNotFoundError:
        return False


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) & 0o777


def sync(path: Path, flags: int) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
