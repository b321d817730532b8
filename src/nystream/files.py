"""Files that are written whole or not at all, and folders that one process at a time may work in.

A file is made inside a working folder beside its place, `NAME.1a2b3c4d.partial`, which its writer keeps locked. The
system ends the lock with the process, however that ends: a working folder that nobody locks was left by a process that
was killed, and the next write of the same file removes it.
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
ABANDONED = 24 * 3600.0  # seconds after which a partial file counts as left behind where locks do not tell
PARTIAL = re.compile(r"(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all, also where the power fails: what was there stays until the new one is safe.

    `write` gets the path to write to; whatever else it leaves beside it is removed. The file's mode is what
    `open(path, "w")` would give it: that of the file it replaces, or what the umask allows.
    """
    sweep(path)
    with working_folder(path) as folder:
        partial = folder / path.name
        partial.touch()
        mode = _mode(path if path.is_file() else partial)
        write(partial)
        _sync(partial, os.O_RDWR)
        if _mode(partial) != mode:  # some libraries write a private file and rename it
            partial.chmod(mode)
        os.replace(partial, path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _sync(path.resolve().parent, os.O_RDONLY)


def write_text(path: Path, text: str) -> None:
    """`replace` with a text, in UTF-8."""
    replace(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def require_writable(name: str, path: Path) -> None:
    """Fail before the work, not after it, if its file could not be written."""
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"{name}={path}: its folder does not exist; make it first")
    if os.path.isdir(path):  # which, unlike Path.is_dir, bears every name
        raise IsADirectoryError(f"{name}={path} is a folder, but must be a file")
    if os.path.exists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK)):
        raise PermissionError(f"{name}={path} is there and is no file that may be written over")
    try:
        with working_folder(path):
            pass
    except OSError as error:
        raise OSError(f"{name}={path} cannot be written: {error.strerror}") from error


def require_folder(name: str, folder: Path) -> None:
    """Make a folder, and fail before the work, not after it, if nothing can be written to it."""
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
    """A folder beside `path` to make it in, which no other process uses or removes; gone in the end."""
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
    """Remove what processes that were killed have left of a file; what a live process is writing stays."""
    if not path.parent.is_dir():
        return
    for partial in list(path.parent.iterdir()):
        match = PARTIAL.fullmatch(partial.name)
        if match is not None and match[1] == path.name:
            _discard(partial)


def is_remnant(path: Path) -> bool:
    """Whether a name is that of a lock or a partial file: a folder with nothing else in it is as good as empty."""
    return path.name == LOCK or PARTIAL.fullmatch(path.name) is not None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if need be; one that comes second gets an error at once.

    The lock is the system's and ends with the process: one that was killed keeps nobody out, and what it left
    half-written is removed. A folder that was made here and has nothing in it in the end is removed.
    """
    from filelock import FileLock, Timeout

    made = [place for place in (folder, *folder.parents) if not place.exists()]
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
        with suppress(OSError):  # a locked file cannot be written on some systems; it is there for the message only
            path.write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        for partial in list(folder.rglob("*.partial")):  # of any file: this is the start of whatever wrote them
            if is_remnant(partial):
                _discard(partial)
        yield
    finally:
        with suppress(OSError):  # nor removed
            path.unlink()
        lock.release()
        with suppress(OSError):  # what is not empty stays
            for place in made:
                place.rmdir()


def _holder(path: Path) -> str:
    try:
        said = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        said = ""
    return f"process {said}" if said else "another process"


@contextmanager
def _locked(folder: Path) -> Iterator[bool | None]:
    """Lock a folder: True if that was done, False if another process has it or it is gone, None if it cannot be told.

    Windows and some network disks lock no folders.
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
    return folder.is_dir()  # else it was removed between opening and locking


def _discard(partial: Path) -> None:
    """Remove a partial file, unless a live process is writing it."""
    if partial.is_dir():
        with _locked(partial) as ours:
            if ours or (ours is None and _abandoned(partial)):
                shutil.rmtree(partial, ignore_errors=True)
    elif _abandoned(partial):  # versions up to 0.1 wrote plain files, without a lock
        partial.unlink(missing_ok=True)


def _abandoned(partial: Path) -> bool:
    try:
        return time.time() - partial.stat().st_mtime > ABANDONED
    except FileNotFoundError:
        return False


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) & 0o777


def _sync(path: Path, how: int) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, how)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
