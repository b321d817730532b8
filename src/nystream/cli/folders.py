"""Folders that a command writes to."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile


def require_folder(name: str, folder: Path) -> None:
    """Make it, and fail before the work, not after it, where nothing can be written. `name` is the option's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise NotADirectoryError(f"{name}={folder} is a file, but must be a folder") from error
    except OSError as error:
        raise OSError(f"{name}={folder} is no folder that can be written to: {error.strerror}") from error
